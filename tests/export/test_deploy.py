"""What leaves Python behind: the example in C++, and folders that CMake builds."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests import warm
from tests.export.deploy import SOURCES, TORCH, compile_program, needs_cmake
from tests.export.support import captured, nested, run

if TYPE_CHECKING:
    from pathlib import Path


def _built(folder: Path) -> Path:
    """The example, by CMake where there is one, else by the compiler alone."""
    if shutil.which("cmake") is None or shutil.which("make") is None:
        return compile_program(folder)
    _cmake(SOURCES, folder / "build", f"-DWIR_TORCH_DIR={TORCH}")
    return folder / "build" / "deploy"


def _cmake(source: Path, build: Path, *options: str) -> None:
    for command in (["cmake", "-S", source, "-B", build, *options], ["cmake", "--build", build]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d\.\d{4}", text)]


@pytest.mark.slow
def test_the_example_prints_what_eager_python_prints(tmp_path: Path) -> None:
    package = tmp_path / "classifier.pt2"
    exported = warm.run(SOURCES / "export.py", package)
    assert exported.returncode == 0, exported.stderr
    program = _built(tmp_path)
    shutil.rmtree(tmp_path / "build" / "CMakeFiles", ignore_errors=True)
    done = subprocess.run([program, package, "2", "8"], capture_output=True, text=True, check=True)
    assert len(_numbers(done.stdout)) == 8
    assert _numbers(done.stdout) == pytest.approx(_numbers(exported.stdout), abs=2e-4)
    other = subprocess.run(
        [program, package, "3", "8"], capture_output=True, text=True, check=False
    )
    assert other.returncode == 1
    assert "expected float32[2, 8]" in other.stderr
    assert "got float32[3, 8]" in other.stderr


@pytest.mark.long
@needs_cmake
@pytest.mark.slow
def test_a_folder_is_built_by_cmake(tmp_path: Path) -> None:
    model, x, shift = nested()
    folder = wir.export(captured(), tmp_path / "sources")
    moved = folder.rename(tmp_path / "moved elsewhere")
    _cmake(moved, tmp_path / "build", f"-DWIR_TORCH_DIR={TORCH}")
    with torch.no_grad():
        got = run(tmp_path / "build" / "sources.so", x, shift)
        torch.testing.assert_close(got[0], model(x, shift=shift)["hidden"])


@needs_cmake
def test_cmake_says_how_to_name_pytorchs_directory(tmp_path: Path) -> None:
    folder = wir.export(captured(), tmp_path / "sources")
    for source in (folder, SOURCES, SOURCES.parent / "deploy_distributed"):
        command = ["cmake", "-S", source, "-B", tmp_path / f"build {source.name}"]
        missing = "-DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON"
        done = subprocess.run([*command, missing], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "pass -DWIR_TORCH_DIR=DIR" in done.stderr


def test_a_folder_names_no_path_of_this_machine(tmp_path: Path) -> None:
    folder = wir.export(captured(), tmp_path / "sources")
    texts = [file for file in folder.rglob("*") if file.suffix not in (".bin", ".safetensors")]
    for file in texts:
        if file.is_file():
            assert str(TORCH) not in file.read_text(), file
            assert str(tmp_path) not in file.read_text(), file
    assert {"CMakeLists.txt", "README.md", "program.cpp", "constants.bin"} <= {
        file.name for file in folder.iterdir()
    }
