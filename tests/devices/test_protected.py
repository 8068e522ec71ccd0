"""A device out of tree, with memory that the host cannot touch: ``examples/device_protected``."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import wrapper_ir as wir
from tests import warm
from tests.export.deploy import TORCH, compile_program, needs_cmake
from tests.pages import ROOT

PACKAGE = ROOT / "examples" / "device_protected"
CASES = Path(__file__).with_name("on_protected.py")

#: Of the zoo's, those whose ops torch has for such a device; the first five are trained.
ZOO = (
    *("mlp", "encoder", "attention", "experts", "graph_breaks", "torch_encoder", "input_mutation"),
    *("views_and_duplicates", "mixed_dtypes", "bert", "t5", "llama"),
)

BETWEEN = (*(tokenize.COMMENT, tokenize.NL), tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package was installed, and nothing else."""
    builders = ("setuptools.command.bdist_wheel", "wheel")
    if not any(map(importlib.util.find_spec, builders)):
        pytest.skip("what builds the package is not installed")
    room = tmp_path_factory.mktemp("protected")
    shutil.copytree(PACKAGE, room / "package", ignore=shutil.ignore_patterns("*.so", "build"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    plain = ["--no-build-isolation", "--no-deps", "--no-index", "--target"]
    done = subprocess.run(
        [*pip, *plain, str(room / "site"), str(room / "package")],
        capture_output=True,
        text=True,
        check=False,
        # It is compiled sooner, and copies little; which of the two counts depends on setuptools.
        env={**os.environ, "CFLAGS": "-O0 -g0", "CXXFLAGS": "-O0 -g0"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return room / "site"


def run(site: Path, case: str, *args: object) -> subprocess.CompletedProcess[str]:
    return warm.run(CASES, site, case, *args, taken_down=True, TORCHDYNAMO_VERBOSE="1")


def code_lines(path: Path) -> int:
    """Count the lines of a file that are neither blank nor comments nor docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".cpp", ".h"):
        lines = [line.strip() for line in text.splitlines()]
        return sum(bool(line) and not line.startswith("//") for line in lines)
    found: set[int] = set()
    first = True  # of a statement, where a string is a docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in BETWEEN:
            continue
        if token.type == tokenize.NEWLINE:
            first = True
            continue
        if not (first and token.type == tokenize.STRING):
            found.update(range(token.start[0], token.end[0] + 1))
        first = False
    return len(found - {0})


def test_a_device_takes_150_lines() -> None:
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".cpp", ".h")]
    sources = [path for path in sources if path.parent.name != "tests"]
    assert {"memory.cpp", "device_protected.h", "setup.py"} <= {path.name for path in sources}
    assert sum(map(code_lines, sources)) <= 150


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "forward",
        "installed",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ("training", "training_in_cpp", "ops", "vendor")
        ),
    ],
)
def test_it_runs_what_the_front_end_makes(site: Path, case: str) -> None:
    done = run(site, case)
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="there is no Triton")
@pytest.mark.slow
def test_triton_kernels_are_launched_by_a_class_of_the_vendors(site: Path) -> None:
    done = run(site, "triton")
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.slow
def test_an_installation_serves_all_entry_points_there(site: Path, tmp_path: Path) -> None:
    done = run(site, "entry_points", tmp_path)
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.long  # a minute each
@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_models_of_the_zoo_run_there(site: Path, emitter: str) -> None:
    done = run(site, "zoo", emitter, *ZOO)
    assert set(done.stdout.split()) == {*ZOO, "done"}, done.stderr


@pytest.mark.long  # the whole corpus
def test_the_kit_passes_there(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "tests.py"
    file.write_text(f"import sys; sys.path.insert(0, sys.argv.pop(1))\n{warm.PYTEST}")
    options = ("-q", "--show-capture=no", "-p", "no:cacheprovider", PACKAGE / "tests")
    done = warm.run(file, site, *options)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    assert " passed" in done.stdout


@pytest.mark.slow
def test_its_packages_are_loaded_by_our_loader_and_by_torchs(site: Path, tmp_path: Path) -> None:
    done = run(site, "package", tmp_path / "m.pt2")
    assert done.stdout.endswith("done\n"), done.stderr
    told = "it runs on protected, which PyTorch does not know here"
    with pytest.raises(wir.WrapperIRError, match=told):
        wir.load_package(tmp_path / "m.pt2")


@pytest.mark.slow
def test_its_libraries_are_loaded_by_our_loader(site: Path, tmp_path: Path) -> None:
    for case in ("library", "loaded"):
        done = run(site, case, tmp_path)
        assert done.stdout.endswith("done\n"), done.stderr
    with pytest.raises(wir.WrapperIRError, match=re.escape("libdevice_protected.so: cannot open")):
        wir.load_package(tmp_path / "in.so")


@pytest.mark.long  # CMake compiles the runtime part anew
@pytest.mark.slow
@needs_cmake
def test_its_folders_run_and_are_built_by_cmake(site: Path, tmp_path: Path) -> None:
    done = run(site, "folder", tmp_path)
    assert done.stdout.endswith("done\n"), done.stderr
    configure = ["cmake", "-S", tmp_path / "in_cpp", "-B", tmp_path, f"-DWIR_TORCH_DIR={TORCH}"]
    refused = subprocess.run(configure, capture_output=True, text=True, check=False)
    assert "libdevice_protected.so not found" in refused.stderr
    (library,) = site.rglob("libdevice_protected.so")
    program = compile_program(tmp_path, CASES.with_name("run_protected.cpp"))
    for command in (
        [*configure, f"-DWIR_LIBDEVICE_PROTECTED={library}"],
        ["cmake", "--build", tmp_path],
        [program, library, tmp_path / "in_cpp.so", tmp_path],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "same\n"
    page = (tmp_path / "in_cpp" / "README.md").read_text()
    assert 'getAOTIModelRunnerRegistry().at("protected")' in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "before"),
    [
        (("fault",), "copied\n"),
        pytest.param(("forgotten", "python"), "compiled\n", marks=pytest.mark.long),
        pytest.param(("forgotten", "cpp"), "compiled\n", marks=pytest.mark.long),
    ],
)
def test_who_touches_its_memory_on_the_host_dies(
    site: Path, case: tuple[str, ...], before: str
) -> None:
    done = run(site, *case)
    assert (done.stdout, done.returncode) == (before, -11), done.stderr
