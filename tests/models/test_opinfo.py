"""The tool behind ``make opinfo``: what it tries, what it keeps, how the interpreter comes in."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tools.opinfo import interpreting, table
from tools.opinfo.__main__ import _batches, _emitters, _requests
from tools.opinfo.database import Batch, NoSampleError, samples
from tools.opinfo.mode import Mode
from tools.opinfo.pool import Pool, Request
from tools.opinfo.ways import difference, run
from wrapper_ir.emitters.registry import emitter_class

if TYPE_CHECKING:
    from pathlib import Path


def findings(path: Path, *rows: dict[str, object]) -> table.Findings:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return table.Findings(path)


def row(op: str, dtype: str = "float32", **rest: object) -> dict[str, object]:
    return {"torch": table.torch_version(), "dtype": dtype, "op": op, "stock": "passed", **rest}


def asking(**wanted: object) -> argparse.Namespace:
    usual: dict[str, Any] = dict.fromkeys(("modules", "backward", "dynamic"), False)
    usual |= {"dtype": ["float32"], "emitter": ["python"], "samples": 1, "batch": 1}
    usual |= {"device": "cpu"}
    return argparse.Namespace(**usual | {"every": 1, "cpp_every": 1} | wanted)


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
    options = asking(ops="add*", dtype=["float64", "int64"], every=2)
    asked = [(request.mode.dtype, request.ops) for request in _requests(options, known)]
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
    with pytest.raises(ModuleNotFoundError):  # and no warning of a finder that lacks a method
        importlib.import_module("there_is_no_such_module")


def test_a_row_is_called_by_what_is_tried() -> None:
    assert Mode("float32").label == "float32"
    assert Mode("int64", dynamic=True).label == "int64, dynamic"
    assert Mode("float32", modules=True, backward=True).label == "nn modules, float32, backward"


def test_what_was_found_with_gradients_says_nothing_of_what_was_found_without(
    tmp_path: Path,
) -> None:
    known = findings(tmp_path / "f", row("addmm", python="passed"))
    options = asking(ops="addmm", backward=True)
    assert [request.ops for request in _requests(options, known)] == [("addmm",)]
    known.add("float32, backward", "addmm", {"stock": "passed", "python": "passed"})
    assert not _requests(options, known)


def test_cpp_may_be_sampled() -> None:
    ways = _emitters(["a", "b", "c"], asking(emitter=["python", "cpp"], cpp_every=2))
    assert ways == {"a": ("python", "cpp"), "b": ("python",), "c": ("python", "cpp")}


def test_rows_of_what_was_not_tried_again_stay(tmp_path: Path) -> None:
    document = tmp_path / "coverage.md"
    eager = "no graph: Dynamo | Inductor leaves it to eager"
    old = findings(
        tmp_path / "old",
        row("abs", python="passed"),
        row("item", python=eager),
        row("item", "float32, backward", python=eager),
    )
    table.write(document, table.section(old, ("python",)))
    new = findings(tmp_path / "new", row("item", "float32, backward", python="passed"))
    before = table.written(document)
    table.write(document, table.section(new, ("python",), before))
    text = document.read_text()
    release = table.torch_version()
    assert f"| {release} | float32 | 2 | 0 | 0 | 1 | 1 | 0 |" in text
    assert f"| {release} | float32, backward | 1 | 0 | 0 | 0 | 1 | 0 |" in text
    assert "| no graph: Dynamo \\| Inductor leaves it to eager | item (float32) |" in text
    assert text.count("item (") == 1


def test_what_was_stopped_at_the_end_of_the_time_is_not_lost() -> None:
    found: list[object] = []
    request = Request(("abs",), Mode("float32"), 1, ())
    pool = Pool(deque(), 1, time.monotonic() - 1, lambda *verdict: found.append(verdict))
    pool._take(request, {"lost": "took too long"})
    assert not found
    pool.until = time.monotonic() + 60
    pool._take(request, {"lost": "took too long"})
    assert len(found) == 1


def test_a_run_does_not_wait_for_what_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    # The worker starts a process that keeps the pipe open, as a compiler may.
    late = (sys.executable, "-c", "import os, time; os.fork(); time.sleep(600)")
    monkeypatch.setattr("tools.opinfo.pool._COMMAND", late)
    monkeypatch.setattr("tools.opinfo.pool._GRACE", 0.1)
    found: list[object] = []
    requests = deque([Request(("abs",), Mode("float32"), 1, ())] * 3)
    began = time.monotonic()
    Pool(requests, 2, began + 1, lambda *verdict: found.append(verdict)).run()
    assert time.monotonic() - began < 30
    assert not found


def test_ops_without_gradients_have_no_sample_with_them() -> None:
    with pytest.raises(NoSampleError, match="no gradient of float32"):
        samples("argmax", Mode("float32", backward=True), 1)


def test_gradients_of_a_batch_are_taken_of_all_calls_and_parameters() -> None:
    mode = Mode("float32", modules=True, backward=True)
    (call,) = samples("nn.BatchNorm1d train", mode, 1)
    batch = Batch([call, call]).fresh()
    arguments = batch.arguments()
    gradients = batch.gradients(batch(arguments), arguments)
    assert len(gradients) == 2 + 2 * 2  # an argument, a weight and a bias, twice
    assert all(gradient is not None for gradient in gradients)
    fresh, used = call.state()[2], batch.state()[2]
    assert not torch.equal(fresh, used), "running statistics of the sample itself have changed"


@pytest.mark.parametrize("what", ["gradients", "state"])
def test_one_bit_of_a_gradient_or_a_state_is_a_difference(what: str) -> None:
    mode = Mode("float32", modules=True, backward=True)
    batch = Batch(samples("nn.BatchNorm1d train", mode, 1))
    stock, ours = (run(batch, "eager", mode, fullgraph=True) for _ in range(2))
    assert not difference(ours, stock)
    with torch.no_grad():
        tensor = getattr(ours, what)[0].view(-1)[:1].view(torch.int32)
        tensor ^= 1
    assert difference(ours, stock) == f"{what} 0: values differ"
    ours.lowered = 2
    assert "0 of them through us" in difference(ours, stock)
