"""Branches beside collectives in flight have no races; with less order, the verifier sees them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.fuzz.collectives import made
from wrapper_ir.analysis.collectives import waits_for_work
from wrapper_ir.interpreter import RaceError, run_interleaved
from wrapper_ir.lines import RecordEvent, WaitEvent
from wrapper_ir.passes.branch import branch

if TYPE_CHECKING:
    from collections.abc import Iterator

X, W = torch.arange(64.0).view(8, 8) % 7, torch.eye(8) / 2


def run(program: wir.Program, interleavings: int, *, verify: bool = True) -> None:
    run_interleaved(program, X.clone(), W, interleavings=interleavings, verify=verify)


@pytest.mark.parametrize("seed", range(8))
def test_branches_have_no_races_also_when_planned(seed: int) -> None:
    program = branch(made(seed), 2)
    for each in (program, wir.plan_memory(program), wir.plan_memory(program, "pool")):
        assert wir.diagnose(each) == ()
        run(each, 4)


def with_less_order(program: wir.Program) -> Iterator[tuple[int, wir.Program]]:
    """Yield a program without one of its waits, and with an event that comes before a wait."""
    body = program.body
    for index, line in enumerate(body):
        if isinstance(line, WaitEvent) or waits_for_work(line):
            yield index, program.replace(body=body[:index] + body[index + 1 :])
    for index, (line, after) in enumerate(itertools.pairwise(body)):
        if waits_for_work(line) and isinstance(after, RecordEvent):
            yield index, program.replace(body=(*body[:index], after, line, *body[index + 2 :]))


def test_what_races_is_what_the_verifier_refuses() -> None:
    beside, races = 0, 0
    for seed in range(12):
        program = branch(made(seed), 2)
        beside += bool(program.streams) and any(map(waits_for_work, program.body))
        for index, changed in with_less_order(program):
            refused = bool(wir.diagnose(changed))
            try:
                run(changed, 12, verify=False)
            except RaceError:
                races += 1
                assert refused, (seed, index)
    assert beside >= 6
    assert races >= 20
