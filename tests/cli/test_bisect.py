"""bisect, and run with the debug printer, from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.samples import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.conftest import Invoke


def test_equal_runs(room: Path, invoke: Invoke) -> None:
    result = invoke("bisect", "small.wir", "--random", "0")
    assert result.exit_code == 0
    assert result.stdout == "no difference in 2 tensors\n"


def test_a_planted_fault_and_its_reproducer(room: Path, invoke: Invoke) -> None:
    bad = PROGRAM.replace("in_ptr0[i] : 0;", "in_ptr0[i] : -1;")
    (room / "bad.wir").write_text(bad)
    words = ("bisect", "small.wir", "--other", "bad.wir", "--random", "0", "-o", "repro")
    result = invoke(*words, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["call"], found["path"], found["buffer"]) == ("0000 relu", "body[3]", "y")
    assert "expected 0" in found["difference"]
    assert (room / "repro" / "test_call.py").exists()
    assert "0000 relu (body[3]) wrote another y" in invoke(*words[:-2]).stdout


def test_run_shows_values(
    room: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from wrapper_ir.runtime import debug_session

    with debug_session(output=tmp_path / "log"):
        words = ("run", "small.wir", "--random", "0", "--debug", "names")
        assert invoke(*words).exit_code == 0
        assert invoke(*words, "--debug-filter", "*mm*").exit_code == 0
    log = (tmp_path / "log").read_text().splitlines()
    assert log == ["0000 relu before", "0001 aten::mm.out before", "0001 aten::mm.out before"]
    result = invoke("run", "small.wir", "--random", "0", "--debug", "loud")
    assert result.exit_code == 2
    assert "'off', 'save', 'print', 'names'" in result.stderr
