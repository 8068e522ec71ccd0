"""The tool behind ``make opinfo``: what it tries, what it keeps, how the interpreter comes in."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from typing import TYPE_CHECKING

from tools.opinfo import interpreting, table
from tools.opinfo.__main__ import _batches, _requests
from wrapper_ir.emitters.registry import emitter_class

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def findings(path: Path, *rows: dict[str, object]) -> table.Findings:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return table.Findings(path)


def row(op: str, dtype: str = "float32", **rest: object) -> dict[str, object]:
    return {"torch": table.torch_version(), "dtype": dtype, "op": op, "stock": "passed", **rest}


def test_what_would_spoil_a_batch_goes_alone() -> None:
    found = _batches(["a", "b", "odd", "c"], 2, frozenset({"odd"}))
    assert found == [("a", "b"), ("c",), ("odd",)]


def test_an_op_that_was_odd_once_is_odd_in_every_element_type(tmp_path: Path) -> None:
    known = findings(
        tmp_path / "f",
        row("good", python="passed"),
        row("odd", python="failed: values differ"),
        row("eager", fx="no graph: Dynamo or Inductor leaves it to eager"),
        {**row("other"), "stock": "no sample: no bool on a CPU"},
    )
    assert known.amiss() == {"odd", "eager"}


def test_each_element_type_tries_other_ops_in_turn(tmp_path: Path) -> None:
    known = findings(tmp_path / "f", row("addmm", "int64", python="passed"))
    options = argparse.Namespace(
        ops="add*", dtype=["float64", "int64"], every=2, emitter=["python"], samples=1, batch=1
    )
    asked = [(request.dtype, request.ops) for request in _requests(options, known)]
    assert [dtype for dtype, _ in asked[:2]] == ["float64", "int64"]
    names = {dtype: {op for d, ops in asked if d == dtype for op in ops} for dtype, _ in asked}
    assert names["float64"].isdisjoint(names["int64"])
    assert "addmm" not in names["int64"]


def test_releases_of_torch_have_rows_of_their_own(tmp_path: Path) -> None:
    known = findings(
        tmp_path / "f", row("abs", cpp="passed"), {**row("abs", cpp="failed: x"), "torch": "2.0.1"}
    )
    shown = table.tables(known, ("cpp",)).splitlines()[2:]
    assert [line.split(" | ")[-2:] for line in shown] == [["1", "0 |"], ["0", "1 |"]]
    assert known.failures() == ["torch 2.0.1, float32 abs, cpp: failed: x"]


def test_the_interpreter_is_found_like_an_emitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    interpreting.register()
    assert emitter_class("interpreter") is interpreting.InterpreterEmitter
    assert importlib.metadata.version("wir-interpreting") == "0"
