"""Recorded runs: which calls they time, what they count, and how they get to the explorer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

import wrapper_ir as wir
from tests.emitters.corpus import CASES, program
from tests.pages import ROOT
from wrapper_ir.cli.app import main
from wrapper_ir.debugging import record_run
from wrapper_ir.errors import OptionValueError
from wrapper_ir.passes.probed import calls_of

if TYPE_CHECKING:
    from pathlib import Path


def program_of(name: str) -> tuple[wir.Program, list[Any]]:
    return wir.plan_memory(program(name)), CASES[name].make()


# Three texts of C++ are compiled.
@pytest.mark.parametrize("target", ["python", "fx", pytest.param("cpp", marks=pytest.mark.long)])
def test_each_call_is_timed(target: str) -> None:
    made, inputs = program_of("views")
    run = record_run(made, inputs, target, runs=3)
    assert [call.call for call in run.calls] == [call.label for call in calls_of(made)]
    assert (run.program, run.target, run.runs) == (made.name, target, 3)
    for call in run.calls:
        assert 0 < call.least <= call.seconds < 60
        assert call.visits == 1
    assert run.seconds > 0


def test_bytes_are_those_of_the_tensors_read_and_written() -> None:
    made, inputs = program_of("dynamic_shapes")
    run = record_run(made, inputs, runs=1)
    sizes: dict[tuple[str, str], int] = {}
    for row in run.values:
        count = torch.Size(row["size"]).numel()
        key = (row["call"], row["when"])
        sizes[key] = sizes.get(key, 0) + 4 * count
    assert all(row["dtype"] == "f32" for row in run.values)
    for call in run.calls:
        assert call.read_bytes == sizes.get((call.call, "before"), 0)
        assert call.written_bytes == sizes[call.call, "after"]


def test_visits_in_loops_are_counted_and_inputs_are_left_alone() -> None:
    made, inputs = program_of("while")
    run = record_run(made, inputs, runs=2)
    rows = [row["call"] for row in run.values if row["when"] == "after"]
    for call in run.calls:
        assert rows.count(call.call) % call.visits == 0
    made, inputs = program_of("input_mutation")
    before = [each.clone() for each in inputs]
    record_run(made, inputs, runs=2)
    for was, now in zip(before, inputs, strict=True):
        torch.testing.assert_close(was, now, rtol=0, atol=0)


def test_a_record_is_a_file_of_rows(tmp_path: Path) -> None:
    made, inputs = program_of("views")
    run = record_run(made, inputs, runs=1)
    file = run.save(tmp_path / "run.jsonl")
    rows = [json.loads(row) for row in file.read_text(encoding="utf-8").splitlines()]
    assert rows == run.rows()
    with pytest.raises(OptionValueError):
        record_run(made, inputs, runs=0)


def test_the_commands_fit_together(tmp_path: Path) -> None:
    file = str(ROOT / "tests" / "programs" / "views.wir")
    record, wrong, page = (str(tmp_path / name) for name in ("r.jsonl", "b.json", "p.html"))
    run = CliRunner().invoke
    done = run(main, ["run", file, "--random", "0", "--record", record])
    assert done.exit_code == 0, done.output
    done = run(main, ["bisect", file, "--random", "0", "--json"])
    (tmp_path / "b.json").write_text(done.stdout, encoding="utf-8")
    found = ["--found", record, "--found", wrong]
    done = run(main, ["explore", file, "-o", page, *found, "--json"])
    assert done.exit_code == 0, done.output
    (view,) = json.loads(done.stdout)["programs"]
    assert view["times"]
    assert view["recorded"]
    done = run(main, ["explore", file, "-o", page, "--found", file])
    assert "WIR1601" in done.output
    record_again = ["run", file, "--random", "0", "--record"]
    assert run(main, [*record_again, record]).exit_code == 0  # a record may replace a record
    assert run(main, [*record_again, wrong]).exit_code == 2
    assert run(main, [*record_again, record, "--interpret"]).exit_code == 2


DRAWN = """\
wir 2
program @drawn inference logical

input %x : f32[4] @cpu
input %half : f32[] @cpu

extern aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor
extern aten::gt.Scalar(Tensor self, Scalar other) -> Tensor
extern aten::neg(Tensor self) -> Tensor
extern aten::exp(Tensor self) -> Tensor

  %drawn = aten::bernoulli(%half) : f32[] @cpu
  %p = aten::gt.Scalar(%drawn, 0) : bool[] @cpu
  %y = cond %p with (%x) : f32[4] @cpu
    then (%x0 : f32[4] @cpu) {
      %y0 = aten::neg(%x0) : f32[4] @cpu
      yield %y0
    }
    else (%x1 : f32[4] @cpu) {
      %y1 = aten::exp(%x1) : f32[4] @cpu
      yield %y1
    }
return %y
"""


def test_a_call_that_only_some_runs_make_has_the_figures_of_those() -> None:
    inputs = [torch.ones(4), torch.tensor(0.5)]
    run = record_run(wir.parse(DRAWN), inputs, runs=16)
    callees = [call.call.partition(" ")[2] for call in run.calls]
    assert callees == ["aten::bernoulli", "aten::gt.Scalar", "aten::neg", "aten::exp"]
    for call in run.calls[-2:]:
        assert (call.visits, call.read_bytes, call.written_bytes) == (1, 16, 16)
