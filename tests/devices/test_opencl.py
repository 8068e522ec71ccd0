"""``examples/device_opencl``, a device out of tree: installed as users do it, with its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import warm
from tests.devices.test_protected import code_lines
from tests.pages import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyopencl", reason="OpenCL comes with the development tools on Linux, x86_64")
pytest.importorskip("setuptools", reason="what builds the package is not installed")

PACKAGE = ROOT / "examples" / "device_opencl"

KIT = PACKAGE / "tests" / "test_conformance.py"
MUTANTS = ROOT / "tests" / "devices" / "opencl_mutants.py"

#: Runs a file. Torch was imported before, so nobody has told it of the package.
RUN = """
import runpy, sys
sys.path[:0] = [sys.argv.pop(1), sys.argv.pop(1)]
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

#: Compiles a kernel. PoCL from PyPI brings an LLVM of 2022, which does not know newer processors.
TRIAL = """
import pyopencl

context = pyopencl.create_some_context(interactive=False)
pyopencl.Program(context, "__kernel void f(__global float *x) { *x = 1; }").build()
"""

#: Of the zoo's, those that name no device and ask for no fused LSTM.
ZOO = """
mlp conv_net encoder torch_encoder dlrm unet attention experts input_mutation views_and_duplicates
mixed_dtypes example_decoder vit
"""

#: It shows a program for the device.
PAGE = ROOT / "docs" / "device-queues.md"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into."""
    room = tmp_path_factory.mktemp("opencl")
    env = os.environ | {"POCL_CACHE_DIR": str(room / "trial")}
    tried = subprocess.run([sys.executable, "-c", TRIAL], env=env, capture_output=True, text=True)
    if "unknown target CPU" in tried.stderr:
        pytest.skip("OpenCL's compiler does not know this processor")
    shutil.copytree(PACKAGE, room / "package", ignore=shutil.ignore_patterns("*.so", "build"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    how = ["--no-deps", "--no-build-isolation", "--target", room / "site", room / "package"]
    subprocess.run([*pip, *how], check=True)
    return room / "site"


def run(folder: Path, cache: Path, file: Path, *args: str | Path) -> str:
    done = warm.run(RUN, folder, ROOT, file, *args, POCL_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    return done.stdout


@pytest.mark.long  # a minute
def test_its_own_tests_pass(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "tests.py"
    file.write_text(warm.PYTEST)
    options = ("-q", "--show-capture=no", "-p", "no:cacheprovider", f"--ignore={KIT}")
    assert " skipped" not in run(installed, tmp_path, file, *options, PACKAGE / "tests")


@pytest.mark.long  # the whole corpus
def test_the_kit_passes_there(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "tests.py"
    file.write_text(warm.PYTEST)
    options = ("-q", "--show-capture=no", "-p", "no:cacheprovider", KIT)
    assert " passed" in run(installed, tmp_path, file, *options)


def test_the_kit_finds_what_is_wrong_with_a_device(installed: Path, tmp_path: Path) -> None:
    found = run(installed, tmp_path, MUTANTS)
    named = re.findall(r'^    "(\w+)": \(', MUTANTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found.split() == named
    assert len(named) >= 12


def test_an_emitted_file_runs_by_itself(installed: Path, tmp_path: Path) -> None:
    (text,) = (block.text for block in blocks(PAGE) if block.note.endswith("test_opencl.py"))
    emit = "import sys, wrapper_ir as wir; print(wir.emit(wir.parse(sys.stdin.read())).source)"
    paths = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "POCL_CACHE_DIR": str(tmp_path)}
    how = {"env": env, "text": True, "capture_output": True, "check": False}
    source = subprocess.run([sys.executable, "-c", emit], input=text, **how)
    assert source.returncode == 0, source.stderr
    assert "own_stream_1 = OwnStream(opencl_0, Stream)" in source.stdout.splitlines()
    file = tmp_path / "emitted.py"
    file.write_text(source.stdout)
    done = subprocess.run([sys.executable, file], **how)
    assert done.returncode == 0, done.stderr


@pytest.mark.long  # half a minute; that programs run there is seen in less
def test_models_of_the_zoo_run_there(installed: Path, tmp_path: Path) -> None:
    names = ZOO.split()
    told = run(installed, tmp_path, ROOT / "tests" / "devices" / "opencl_zoo.py", *names)
    assert sorted(told.split()) == sorted(names)


def test_it_is_small() -> None:
    files = [file for file in PACKAGE.rglob("*") if file.suffix in (".py", ".cpp", ".h")]
    files = [file for file in files if file.parent.name not in ("kernels", "tests")]
    found = {file.name: code_lines(file) for file in files}
    assert {"__init__.py", "launcher.py", "memory.py", "queues.py"} <= found.keys()
    assert sum(found.values()) <= 153
