"""The plugin of pytest, in runs of its own: what it writes, and what it says of changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import warm

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

def test_forms(wir_snapshot, python_snapshot, cpp_snapshot, fx_snapshot):
    program = wir.parse(TEXT)
    assert program == wir_snapshot
    assert program == python_snapshot
    assert program == cpp_snapshot
    assert program == fx_snapshot
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
    assert files.keys() == {".wir", ".py", ".cpp", ".txt"}
    compile(files[".py"].read_text(), "snapshot", "exec")
    assert "neg" in files[".cpp"].read_text()
    assert "neg" in files[".txt"].read_text()
    assert files[".wir"].read_text().startswith("wir ")


def test_a_new_name_changes_nothing(folder: Path) -> None:
    done = run(folder, x="called_otherwise")
    assert done.returncode == 0, done.stdout


def test_a_change_is_named(folder: Path) -> None:
    done = run(folder, size=16)
    assert done.returncode == 1
    assert "8 -> 16" in done.stdout
    file = FOLDER / "test_forms.wir"
    assert f"in {file}; pytest --snapshot-update accepts the changes" in done.stdout


def test_a_new_test_is_told_how_to_write_its_file(folder: Path) -> None:
    text = TEST.replace("{size}", "8").replace("{x}", "x").replace("{name}", "n")
    (folder / "test_new.py").write_text(text)
    done = run(folder, "test_new.py")
    (folder / "test_new.py").unlink()
    assert done.returncode == 1
    file = Path("__snapshots__/test_new/test_forms.wir")
    assert f"no such file yet: {file}; pytest --snapshot-update writes it" in done.stdout
    assert "is no program" not in done.stdout


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
    said, then = done.stdout.find("its kernels are for avx512"), done.stdout.find("no such file")
    assert 0 < said < then
