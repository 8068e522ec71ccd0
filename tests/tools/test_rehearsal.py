"""The rehearsal of a release: the torch that it makes, what it takes for a fault, and its page.

All of it is ``make rehearsal``; one change is run here.
"""

from __future__ import annotations

import subprocess
import sys
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from tests.pages import ROOT
from tools.rehearsal.__main__ import Outcome, rehearse, row, worst
from tools.rehearsal.changes import CHANGES, Change
from tools.rehearsal.overlay import SITE, Overlay

if TYPE_CHECKING:
    from pathlib import Path

WRAPPER = "torch/_inductor/codegen/wrapper.py"


def test_a_changed_torch_leaves_the_installed_one_as_it_is(tmp_path: Path) -> None:
    before = (SITE / WRAPPER).read_bytes()
    torch = Overlay(tmp_path)
    torch.rename("AllocateLine", "AllocateBufferLine", within="torch/_inductor")
    torch.move("torch/_inductor/codegen/wrapper_fxir.py", "wrapper_graph.py")
    assert (SITE / WRAPPER).read_bytes() == before
    ours = tmp_path / WRAPPER
    assert not ours.is_symlink()
    assert "class AllocateBufferLine(" in ours.read_text()
    assert (ours.parent / "wrapper_graph.py").is_file()
    assert not (ours.parent / "wrapper_fxir.py").exists()
    assert (ours.parent / "cpp.py").readlink() == SITE / "torch/_inductor/codegen/cpp.py"
    where = "import torch.version as v; print(v.__version__.partition('+')[0], v.__file__)"
    command = [sys.executable, "-c", where]
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.16.0", str(tmp_path / "torch/version.py")]
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_change_of_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    torch = Overlay(tmp_path)
    with pytest.raises(ValueError, match="has no"):
        torch.replace(WRAPPER, "no such text in it", "")
    with pytest.raises(ValueError, match="has no no_such_word_in_it"):
        torch.rename("no_such_word_in_it", "x", within="torch/_inductor/codegen")


@pytest.mark.parametrize(
    ("rows", "end"),
    [
        ([("right", ""), ("right", "")], "right"),
        ([("right", ""), ("error", "WIR3002: no codegen_switch")], "named"),
        ([("error", "WIR3002: something"), ("right", "")], "an error that names nothing"),
        ([("error", "AttributeError: codegen_switch")], "an error that names nothing"),
        ([("stock", "WIR3001: codegen_switch"), ("right", "")], "stock"),
        ([("error", "WIR3002: codegen_switch"), ("wrong results", "")], "wrong results"),
        ([("silently stock", "")], "silently stock"),
        ([("torch fails", "")], "torch fails"),
    ],
)
def test_the_worst_end_is_told(rows: list[tuple[str, str]], end: str) -> None:
    outcome = worst(rows, ("codegen_switch",))
    assert outcome.end == end
    assert outcome.is_fault == (end not in ("right", "named", "stock"))


def test_the_page_has_every_change_and_no_fault() -> None:
    page = (ROOT / "docs/rehearsal.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(table) == len(CHANGES) >= 20
    for line, change in zip(table, CHANGES, strict=True):
        what, end, *_ = line.removeprefix("| ").split(" | ")
        assert what == change.what
        assert end.startswith(("works, ", "an error, ", "torch's own backend, ")), line


def test_a_row_says_nothing_of_this_machine() -> None:
    words = (
        "WIR3002: the Inductor front end does not support torch 2.16.0+cu132: AttributeError: x "
        "(in f, /home/me/env/lib/torch/_inductor/ir.py:1)"
    )
    change = Change("`x` is gone", lambda _: None, ("x",))
    told = row(change, Outcome("named", words, "2 of 7"))
    assert told == "| `x` is gone | an error, 2 of 7 | `WIR3002: AttributeError: x` |"


@pytest.mark.slow
@pytest.mark.long
def test_branches_that_have_changed_places_are_no_wrong_program(tmp_path: Path) -> None:
    """Nothing has another name, so that only the comparison with the graph can tell."""
    (change,) = (each for each in CHANGES if "another order" in each.what)
    names: Queue[str] = Queue()
    names.put("torch_0")
    outcome = rehearse(change, tmp_path, names)
    assert outcome.end == "named", outcome
