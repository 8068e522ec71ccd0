"""The tool behind ``make zoo``: what it takes for a pass, for a failure, and how it survives."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import torch

from tests.models import harness
from tests.models.harness import OURS, STOCK
from tests.models.zoo import Case
from tests.zoo.check import EMITTERS, Outcome, bypassed, check, modes_of
from tests.zoo.crew import Task, results
from tests.zoo.report import Findings, section, summary, table, write_section
from tests.zoo.toys import Architecture
from wrapper_ir.frontends.inductor.session import statistics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings(
    # Stock Inductor forks compile workers from a process that has threads.
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 3).softmax(-1)


class Eager(torch.nn.Module):
    @torch.compiler.disable
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


class Broken(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("no such thing")


def described(module: type[torch.nn.Module], **modes: bool) -> Architecture:
    return Architecture("net", "test", lambda batch: (module(), (torch.randn(batch, 7),)), **modes)


def outcome(emitter: str = "python", state: str = "passed", **rest: object) -> Outcome:
    return Outcome("net", "test", "forward", emitter, state, **rest)


def test_a_model_that_is_as_stocks_passes() -> None:
    (found,) = check(described(Net, dynamic=True), "dynamic", ["python"])
    assert (found.state, found.why, found.graphs) == ("passed", "", 1)
    assert found.lines > 3


def test_a_model_of_which_stock_makes_no_graph_is_skipped() -> None:
    (found,) = check(described(Eager), "forward", ["python"])
    assert (found.state, found.why) == ("skipped", "stock makes no graph of it")


def test_a_model_that_eager_cannot_run_fails() -> None:
    (found,) = check(described(Broken), "forward", ["python"])
    assert found.state == "failed"
    assert found.why == "not even eagerly: ArithmeticError: no such thing"


def test_stocks_code_in_our_place_is_a_bypass() -> None:
    case = Case("net", described(Net).build)
    stock = harness.run(case, STOCK)
    statistics.reset()
    ours = harness.run(case, OURS)
    assert bypassed(ours, stock) == ""
    ours.watch.lowered += 1
    assert bypassed(ours, stock).startswith("bypassed: 2 graphs lowered, 1 programs")
    ours.watch.lowered -= 1
    ours.watch.graphs = stock.watch.graphs
    assert bypassed(ours, stock) == "bypassed: the code that runs is stock's"


def test_only_what_is_said_of_it_is_tried() -> None:
    assert modes_of(described(Net)) == ("forward",)
    assert modes_of(described(Net, backward=True, exported=True)) == (
        "forward",
        "backward",
        "export",
    )


WORKER = """
import json, os, signal, sys, time
for line in sys.stdin:
    name, mode, emitters = json.loads(line)
    if mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "hang":
        time.sleep(1000)
    found = dict(model=name, kind="test", mode=mode, state="passed")
    print(json.dumps([dict(found, emitter=emitter) for emitter in emitters]), flush=True)
"""


def test_a_worker_that_dies_is_one_failure() -> None:
    tasks = [Task(described(Net), mode, EMITTERS) for mode in ("crash", "forward", "backward")]
    found = {
        t.mode: outcomes for t, outcomes in results(tasks, 1, 100, (sys.executable, "-c", WORKER))
    }
    assert [o.why for o in found["crash"]] == ["the process ended by SIGSEGV"] * 3
    assert [o.state for o in found["forward"] + found["backward"]] == ["passed"] * 6


def test_a_worker_that_hangs_is_ended() -> None:
    tasks = [Task(described(Net), "hang", ("fx",))]
    (answer,) = results(tasks, 2, 0.5, (sys.executable, "-c", WORKER))
    assert answer[1][0].why == "took too long, or too much memory"


def test_what_was_found_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "zoo.jsonl"
    findings = Findings(file)
    findings.add(outcome(state="failed", why="differs"))
    findings.add(outcome(emitter="fx"))
    findings.add(outcome())
    again = Findings(file)
    assert again.all() == [outcome(), outcome(emitter="fx")]
    assert again.get("net", "forward", "cpp") is None
    assert summary(again.all()) == "2 passed, 0 failed, 0 skipped"


def test_the_section_names_what_did_not_pass(tmp_path: Path) -> None:
    outcomes = [outcome(e, graphs=2, lines=9) for e in ("python", "cpp")]
    found = [*outcomes, outcome("fx", "failed", why="a | b <c>")]
    body = section(table(found, "torch 2"), table(outcomes, "torch 1"))
    assert "1 models with torch 1: 2 passed, 0 failed, 0 skipped, 2 graphs." in body
    assert "1 models with torch 2: 2 passed, 1 failed, 0 skipped, 2 graphs." in body
    assert "| test | net | 2 | 9 | python passed, cpp passed, fx failed |" in body
    assert "| net forward | failed: a \\| b &lt;c> |" in body
    file = tmp_path / "coverage.md"
    file.write_text("# Coverage\n\nBefore.\n")
    write_section(file, "old")
    file.write_text(f"{file.read_text()}\nAfter.\n")
    write_section(file, "new")
    text = file.read_text()
    assert text.startswith("# Coverage\n\nBefore.\n")
    assert text.endswith("\nAfter.\n")
    assert "new" in text
    assert "old" not in text
