"""The plugin of pytest, in runs of its own: what it writes, and what it says of changes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wrapper_ir as wir
from tests import warm
from wrapper_ir.testing.corpus import corpus_program

if TYPE_CHECKING:
    import subprocess

TEST = '''
import wrapper_ir as wir

TEXT = """
wir 2
program @{name} inference planned
input %{x} : f32[{size}] @cpu
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  %y = allocate : f32[{size}] @cpu
  aten::neg.out(%{x}, out=out %y)
return %y
"""

def test_forms(wir_snapshot, python_snapshot, cpp_snapshot, fx_snapshot, structure_snapshot):
    program = wir.parse(TEXT)
    assert program == wir_snapshot
    assert program == python_snapshot
    assert program == cpp_snapshot
    assert program == fx_snapshot
    assert program == structure_snapshot
'''

FOLDER = Path("__snapshots__") / "test_it"


def run(folder: Path, *args: str, size: int = 8, x: str = "x") -> subprocess.CompletedProcess[str]:
    text = TEST.replace("{size}", str(size)).replace("{x}", x).replace("{name}", "negated")
    (folder / "test_it.py").write_text(text)
    options = ("-q", "-p", "no:cacheprovider", *args)
    return warm.run(warm.PYTEST, *options, cwd=folder, PYTEST_ADDOPTS="")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a test whose snapshots were written."""
    folder = tmp_path_factory.mktemp("snapshots")
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = run(folder, "--snapshot-update")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_one_real_file_a_snapshot(folder: Path) -> None:
    files = {path.suffix: path for path in (folder / FOLDER).iterdir()}
    assert files.keys() == {".wir", ".py", ".cpp", ".txt", ".structure"}
    compile(files[".py"].read_text(), "snapshot", "exec")
    assert "neg" in files[".cpp"].read_text()
    assert "neg" in files[".txt"].read_text()
    assert files[".wir"].read_text().startswith("wir ")
    assert files[".structure"].read_text() == str(wir.structure(wir.load(files[".wir"])))


def test_a_new_name_changes_nothing(folder: Path) -> None:
    done = run(folder, x="called_otherwise")
    assert done.returncode == 0, done.stdout


def test_a_change_is_named(folder: Path) -> None:
    done = run(folder, size=16)
    assert done.returncode == 1
    file = FOLDER / "test_forms.wir"
    assert f"""
snapshot differs: {file}
accept it:  pytest test_it.py::test_forms --snapshot-update

lines: 1 changed; inputs: 1 changed
  bytes allocated                   32  -> 64
  bytes at the peak                 32  -> 64
inputs, constants, symbols, results
  ~ input [0] %input0 : f32[16] @cpu
    size[0] 8 -> 16
lines
  ~ body[1]  %buf0 = allocate : f32[16] @cpu
    size[0] 8 -> 16
test_it.py:16: in test_forms
""" in (done.stdout)
    assert "FAILED test_it.py::test_forms - snapshot differs: __snapshots__/test_it" in done.stdout


def test_the_command_that_a_failure_names_accepts_it(folder: Path, tmp_path: Path) -> None:
    """From another folder, and for a test whose name a shell would take apart."""
    (tmp_path / "some tests").mkdir()
    test = """
import pytest
import wrapper_ir as wir
from wrapper_ir.testing.corpus import corpus_program

@pytest.mark.parametrize("name", ["it's $HOME"])
def test_it(wir_snapshot, name):
    assert corpus_program("relu_twice") == wir_snapshot
"""
    (tmp_path / "some tests" / "test_new.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    here = tmp_path / "here"
    here.mkdir()
    found = warm.run(warm.PYTEST, "-q", "../some tests", cwd=here, PYTEST_ADDOPTS="")
    (line,) = [each for each in found.stdout.splitlines() if each.startswith("accept it:  ")]
    pytest_, *words = shlex.split(line.removeprefix("accept it:  "))
    assert pytest_ == "pytest"
    accepted = warm.run(warm.PYTEST, *words, cwd=here, PYTEST_ADDOPTS="")
    again = warm.run(warm.PYTEST, "-q", "../some tests", cwd=here, PYTEST_ADDOPTS="")
    assert [each.returncode for each in (found, accepted, again)] == [1, 0, 0], accepted.stdout


NOISY = """
import logging
import wrapper_ir as wir
from wrapper_ir.testing.corpus import corpus_program
{imported}

def test_it(wir_snapshot):
    logging.getLogger("torch").warning("a trace " * 50)
    print("printed")
    program = corpus_program("relu_twice")
    {check}

def test_of_something_else(wir_snapshot):
    print("printed")
    assert corpus_program("relu_twice") == wir_snapshot(name="one")
    assert 1 == 2
"""


@pytest.mark.parametrize(
    ("imported", "check", "place", "options"),
    [
        ("", "assert program == wir_snapshot, 'a message'", "test_noisy.py", ()),
        ("", "assert wir_snapshot == program", "test_noisy.py", ("--color=yes",)),
        ("from helper import check", "check(program, wir_snapshot)", "helper.py", ("-n1",)),
    ],
    ids=["message", "reversed", "helper"],
)
def test_nothing_comes_before_the_difference_or_after_it(
    tmp_path: Path, imported: str, check: str, place: str, options: tuple[str, ...]
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "helper.py").write_text("def check(a, b):\n    assert a == b\n")
    text = NOISY.replace("{imported}", imported).replace("{check}", check)
    (tmp_path / "test_noisy.py").write_text(text)
    command = (*options, "-q", "-k", "test_it", "-p", "no:cacheprovider")
    paths = {"PYTHONPATH": f"{Path.cwd()}:{tmp_path}", "PYTEST_ADDOPTS": "", "COLUMNS": "120"}
    paths |= {"CI": "", "BUILD_NUMBER": ""}
    written = warm.run(warm.PYTEST, *command, "--snapshot-update", cwd=tmp_path, **paths)
    assert written.returncode == 0, written.stdout
    (tmp_path / "test_noisy.py").write_text(text.replace("relu_twice", "residual"))
    done = warm.run(warm.PYTEST, *command, cwd=tmp_path, **paths)
    shown = re.sub(r"\x1b\[\d+m", "", done.stdout)
    assert (shown != done.stdout) == ("--color=yes" in options)
    assert "printed" not in shown
    assert "a trace" not in shown
    two = (corpus_program(name).canonical() for name in ("relu_twice", "residual"))
    assert all(line in shown for line in str(wir.diff(*two)).splitlines() if "->" in line)
    before, first, rest = shown.partition(
        "snapshot differs: __snapshots__/test_noisy/test_it.wir\n"
    )
    assert first
    assert before.splitlines()[-1 - ("-n1" in options)].strip("_") == " test_it "
    lines = rest.splitlines()
    end = lines.index("3 lines of captured output: pytest -vv shows them")
    assert re.fullmatch(rf"{place}:\d+: in test_it", lines[end - 1]), rest
    # Whether syrupy adds a report of its own depends on where it runs.
    waits = "1 snapshot waits for a decision:  wrapper-ir review"
    assert lines[end + 1] == waits or lines[end + 1].startswith("---"), rest
    assert waits in lines
    everything = warm.run(warm.PYTEST, *command, "-vvv", cwd=tmp_path, **paths)
    assert "a trace" in everything.stdout


def test_another_assert_of_the_test_is_reported_as_always(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    text = NOISY.replace("{imported}", "").replace("{check}", "")
    (tmp_path / "test_noisy.py").write_text(text)
    command = ("-q", "-k", "test_of", "-p", "no:cacheprovider")
    written = warm.run(warm.PYTEST, *command, "--snapshot-update", cwd=tmp_path, PYTEST_ADDOPTS="")
    assert "E       assert 1 == 2" in written.stdout
    assert "printed" in written.stdout
    assert (tmp_path / "__snapshots__" / "test_noisy" / "test_of_something_else[one].wir").exists()


def test_a_small_change_fits_a_screen(folder: Path) -> None:
    """Of 120 columns and 40 lines, all that pytest prints."""
    text = TEST.replace("{size}", "16").replace("{x}", "x").replace("{name}", "negated")
    (folder / "test_it.py").write_text(text)
    done = warm.run(warm.PYTEST, cwd=folder, PYTEST_ADDOPTS="--no-header", COLUMNS="120")
    lines = done.stdout.splitlines()
    assert "8 -> 16" in done.stdout
    assert len(lines) < 40
    assert max(map(len, lines)) <= 120


def test_a_new_test_is_told_how_to_write_its_file(folder: Path) -> None:
    text = TEST.replace("{size}", "8").replace("{x}", "x").replace("{name}", "n")
    (folder / "test_new.py").write_text(text)
    done = run(folder, "test_new.py")
    (folder / "test_new.py").unlink()
    assert done.returncode == 1
    file = Path("__snapshots__/test_new/test_forms.wir")
    accept = "accept it:  pytest test_new.py::test_forms --snapshot-update"
    assert f"snapshot missing: {file}\n{accept}\n\n+ wir 2\n+ program @program" in done.stdout


def test_other_emitters_have_snapshots(folder: Path) -> None:
    test = """
import pytest
import wrapper_ir as wir
from wrapper_ir.emitters import UnknownEmitterError
from wrapper_ir.testing.corpus import corpus_program

def test_it(emitter_snapshot):
    program = corpus_program("relu_twice")
    assert program == emitter_snapshot("numpy", "py")
    assert program == emitter_snapshot("numpy")
    with pytest.raises(UnknownEmitterError):
        emitter_snapshot("nobody's")
"""
    (folder / "test_other.py").write_text(test)
    done = run(folder, "test_other.py", "--snapshot-update")
    again = run(folder, "test_other.py")
    (folder / "test_other.py").unlink()
    assert (done.returncode, again.returncode) == (0, 0), done.stdout + again.stdout
    files = sorted(path.name for path in (folder / "__snapshots__" / "test_other").iterdir())
    assert files == ["test_it.1.txt", "test_it.py"] or files == ["test_it.py", "test_it.txt"]


def test_no_program_is_an_error(folder: Path) -> None:
    (folder / "test_other.py").write_text(
        "def test_it(wir_snapshot):\n    assert 'text' == wir_snapshot\n"
    )
    done = run(folder, "test_other.py")
    (folder / "test_other.py").unlink()
    assert done.returncode == 1
    assert (
        "no text to compare with the snapshot __snapshots__/test_other/test_it.wir" in done.stdout
    )
    assert "a wir snapshot takes a program, not str" in done.stdout


CAPTURING = """
import os

import torch
import wrapper_ir as wir

torch.set_num_threads(int(os.environ["THREADS"]))

def function(x):
    return x.exp().sum(-1)

def test_it(wir_snapshot):
    assert wir.capture(function, (torch.ones(256, 512),)) == wir_snapshot
"""


def test_a_captured_program_is_the_same_on_every_machine(folder: Path) -> None:
    """With other instructions and threads: where they count, the fixture sets them."""
    (folder / "test_captured.py").write_text(CAPTURING)
    options = ("-q", "-p", "no:cacheprovider", "test_captured.py")
    update = (*options, "--snapshot-update")
    one, other = {"THREADS": "3"}, {"THREADS": "1", "ATEN_CPU_CAPABILITY": "default"}
    written = warm.run(warm.PYTEST, *update, cwd=folder, PYTEST_ADDOPTS="", **one)
    compared = warm.run(warm.PYTEST, *options, cwd=folder, PYTEST_ADDOPTS="", **other)
    (folder / "test_captured.py").unlink()
    assert (written.returncode, compared.returncode) == (0, 0), compared.stdout + compared.stderr


def test_kernels_for_another_machine_are_said_first(folder: Path) -> None:
    test = """
import wrapper_ir as wir
from wrapper_ir.testing.corpus import corpus_program

TEXT = str(corpus_program("relu_twice")).replace(") cpp", ') cpp isa "avx512"')

def test_it(wir_snapshot):
    assert wir.parse(TEXT) == wir_snapshot
"""
    (folder / "test_other.py").write_text(test)
    done = run(folder, "test_other.py")
    (folder / "test_other.py").unlink()
    said, then = done.stdout.find("its kernels are for avx512"), done.stdout.find("+ wir 2")
    assert 0 < said < then
