"""bisect, and run with the debug printer, from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.samples import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.conftest import Invoke


RANDOM_MODEL = """
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()), (torch.randn(2, 4),)
"""


def test_equal_runs(room: Path, invoke: Invoke) -> None:
    result = invoke("bisect", "small.wir", "--random", "0")
    assert result.exit_code == 0
    assert result.stdout == "no difference in 2 tensors\n"


def test_kernels_of_other_names_are_compared(room: Path, invoke: Invoke) -> None:
    bad = PROGRAM.replace("in_ptr0[i] : 0;", "in_ptr0[i] : -1;").replace("@relu", "@cpp_fused_3")
    (room / "bad.wir").write_text(bad)
    result = invoke("bisect", "small.wir", "--other", "bad.wir", "--random", "0", "--json")
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert (found["call"], found["buffer"]) == ("0000 relu", "y")


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
    assert "0000 relu (body[3]) wrote a different y" in invoke(*words[:-2]).stdout


def test_against_eager_execution_of_the_model(room: Path, invoke: Invoke) -> None:
    """The weights are the file's: those of the model that is made anew are others."""
    (room / "random_model.py").write_text(RANDOM_MODEL)
    reference = ("--eager", "random_model.py:make", "--random", "0")
    assert invoke("capture", "random_model.py:make", "-o", "m.wir").exit_code == 0
    right = invoke("bisect", "m.wir", *reference)
    assert (right.exit_code, right.stdout) == (0, "no difference in 2 tensors\n")

    text = (room / "m.wir").read_text()
    head, brace, tail = text.rpartition("  | }")
    out = "in_out_ptr0" if "in_out_ptr0" in text else "out_ptr0"
    (room / "m.wir").write_text(f"{head}  | {out}[1] = {out}[0];\n{brace}{tail}")
    wrong = invoke("bisect", "m.wir", *reference, "-o", "repro", "--json")
    found = json.loads(wrong.stdout)
    assert wrong.exit_code == 1
    assert found["call"].partition(" ")[2].startswith("cpp_fused")
    assert found["difference"].startswith("1 of 8 elements differ")
    assert (room / "repro" / "test_call.py").exists()

    assert invoke("bisect", "m.wir", *reference, "-b", "cpp").exit_code == 2
    assert invoke("bisect", "m.wir", "--random", "0", "--args", "a:b").exit_code == 2


def test_against_eager_execution_op_by_op(room: Path, invoke: Invoke) -> None:
    (room / "random_model.py").write_text(RANDOM_MODEL)
    words = ("random_model.py:make", "--frontend", "aten")
    assert invoke("capture", *words, "-o", "m.wir").exit_code == 0
    result = invoke("bisect", "m.wir", "--eager", *words, "--random", "0")
    assert (result.exit_code, result.stdout) == (0, "no difference in 2 tensors\n")


def test_run_fills_new_memory(room: Path, invoke: Invoke) -> None:
    """A kernel that leaves a part of its result unwritten is stopped at."""
    (room / "short.wir").write_text(PROGRAM.replace("i < 32", "i < 31"))
    words = ("run", "short.wir", "--random", "0", "--debug")
    assert "wrote NaN to y" in invoke(*words, "check", "--debug-poison").stderr
    assert invoke("run", "small.wir", "--random", "0", "--debug-poison").exit_code == 0
    infinite = PROGRAM.replace("in_ptr0[i] : 0;", "in_ptr0[i] : -1.0 / 0.0;")
    (room / "infinite.wir").write_text(infinite)
    words = ("run", "infinite.wir", "--random", "0", "--debug")
    assert "wrote inf to y" in invoke(*words, "check").stderr
    assert "wrote NaN to z" in invoke(*words, "check_nan").stderr


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
