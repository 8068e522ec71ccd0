"""Inline snapshots in runs of pytest: compared, explained and written in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import warm

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

TEST = '''
import pytest
import wrapper_ir as wir

TEXT = """
wir 2
program @negated inference planned
input %x : f32[{size}] @cpu
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  %y = allocate : f32[{size}] @cpu
  aten::neg.out(%x, out=out %y)
return %y
"""

def make(size):
    return wir.parse(TEXT.replace("{size}", str(size)))

class TestThem:
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_parameters(self, wir_inline, count):
        wir_inline(make(SIZE))

def test_two(wir_inline):
    wir_inline(make(SIZE)); wir_inline(make(SIZE + 1))
    wir_inline(make(SIZE), target="fx")
    wir_inline(make(SIZE), target="structure")
'''

CLASH = """
@pytest.mark.parametrize("size", [SIZE, 2])
def test_clash(wir_inline, size):
    wir_inline(make(size), 'text')
"""


def run(folder: Path, *args: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTEST_ADDOPTS": "", "COLUMNS": "120", "EXPECTTEST_ACCEPT": "", **changes}
    return warm.run(warm.PYTEST, "-q", "-p", "no:cacheprovider", *args, cwd=folder, **environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(TEST.replace("SIZE", "8"))
    return tmp_path


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (("--snapshot-update",), {}),
        pytest.param(("--snapshot-update-new-only",), {}, marks=pytest.mark.long),
        (("-n2",), {"EXPECTTEST_ACCEPT": "1"}),
        pytest.param(("-p", "no:syrupy"), {"EXPECTTEST_ACCEPT": "1"}, marks=pytest.mark.long),
    ],
    ids=["update", "new", "processes", "no syrupy"],
)
def test_they_are_written_in_place(
    folder: Path, options: tuple[str, ...], changes: dict[str, str]
) -> None:
    written = run(folder, *options, **changes)
    assert written.returncode == 0, written.stdout
    assert "wrote 5 inline snapshots in test_it.py\n" in written.stdout
    text = (folder / "test_it.py").read_text()
    assert '        wir_inline(make(8), """\n            wir 2\n            program @prog' in text
    assert text.count("import wrapper_ir as wir") == 1
    again = run(folder, *options, **changes)
    assert again.returncode == 0, again.stdout
    assert "wrote" not in again.stdout
    assert (folder / "test_it.py").read_text() == text
    assert run(folder).returncode == 0


def test_a_change_is_explained_and_accepted(folder: Path) -> None:
    missing = run(folder, "-k", "test_two")
    (line,) = (n for n, text in enumerate(TEST.splitlines(), 1) if "SIZE + 1" in text)
    accept = "accept it:  pytest test_it.py::test_two --snapshot-update"
    assert f"snapshot missing: test_it.py:{line}, inline\n{accept}\n\n+ wir 2" in missing.stdout
    assert run(folder, "--snapshot-update").returncode == 0
    test = folder / "test_it.py"
    test.write_text(test.read_text().replace("SIZE", "8").replace("make(8)", "make(16)"))
    new_only = run(folder, "--snapshot-update-new-only")
    done = run(folder)
    assert new_only.returncode == done.returncode == 1
    lines = enumerate(test.read_text().splitlines(), 1)
    line = next(number for number, text in lines if text.startswith("    wir_inline(make(16)"))
    assert f"snapshot differs: test_it.py:{line}, inline\n{accept}\n" in done.stdout
    assert "    size[0] 8 -> 16\n" in done.stdout
    bare = run(folder, "-p", "no:syrupy", "-k", "test_two")
    assert "accept it:  EXPECTTEST_ACCEPT=1 pytest test_it.py::test_two\n" in bare.stdout
    assert run(folder, EXPECTTEST_ACCEPT="1").returncode == 0
    assert run(folder).returncode == 0
    assert "f32[16]" in test.read_text()


def test_names_and_indentation_do_not_count(folder: Path) -> None:
    text = TEST.partition("class TestThem")[0].replace("SIZE", "8")
    call = 'def test_it(wir_inline):\n    wir_inline(make(8), TEXT.replace("{size}", "8"))\n'
    (folder / "test_it.py").write_text(text + call)
    assert run(folder).returncode == 0


@pytest.mark.parametrize(
    "options", [(), pytest.param(("-n2",), marks=pytest.mark.long)], ids=["one", "processes"]
)
def test_a_call_that_needs_several_texts_is_left_alone(
    folder: Path, options: tuple[str, ...]
) -> None:
    (folder / "test_it.py").write_text((TEST + CLASH).replace("SIZE", "8"))
    done = run(folder, *options, "--snapshot-update")
    assert done.returncode == 1
    assert "wrote 5 inline snapshots in test_it.py\n" in done.stdout
    assert "tests need several texts in this one call" in done.stdout
    assert "    wir_inline(make(size), 'text')\n" in (folder / "test_it.py").read_text()


def test_a_file_that_changes_while_tests_run_is_left_alone(folder: Path) -> None:
    test = folder / "test_it.py"
    edit = 'def test_edit():\n    with open(__file__, "a") as file:\n        file.write("(")\n'
    test.write_text(test.read_text() + edit)
    before = test.read_text()
    done = run(folder, "--snapshot-update")
    assert done.returncode == 1
    assert "error: test_it.py is left as it is: WIR5002: " in done.stdout
    assert test.read_text() == before + "("


def test_what_is_no_program_is_said(folder: Path) -> None:
    (folder / "test_it.py").write_text("def test_it(wir_inline):\n    wir_inline('x')\n")
    done = run(folder, "--snapshot-update")
    assert done.returncode == 1
    first = "no text to compare with the snapshot test_it.py:2, inline\n"
    assert f"{first}a wir snapshot takes a program, not str\n" in done.stdout
