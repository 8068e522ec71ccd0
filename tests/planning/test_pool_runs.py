"""Programs run in arenas as they do without: the corpus, and made-up ones, through Python."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests import strategies
from tests.emitters import corpus
from wrapper_ir.lines import Free, Probe, Program, Stage, rewrite_lines
from wrapper_ir.planning import Cut, check_plan, insert_frees, plan_externs, pool_storage
from wrapper_ir.verify import verify

NAMES = ("cond", "dtypes", "dynamic_shapes", "extern_fresh", "multi_output")
NAMES += ("pools_symbolic", "results", "reuse", "unbacked", "views", "while", "zero_sizes")


def without(program: Program, *kinds: type) -> Program:
    body = rewrite_lines(program.body, lambda line: () if isinstance(line, kinds) else (line,))
    return program.replace(body=body, stage=Stage.LOGICAL)


def in_arenas(program: Program, cut: Cut) -> Program:
    pooled = pool_storage(insert_frees(plan_externs(program)), cut).program
    planned = pooled.replace(stage=Stage.PLANNED)
    verify(planned)
    check_plan(planned)
    return planned


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_computes_the_same_in_arenas(name: str) -> None:
    case, program = corpus.CASES[name], corpus.program(name)
    weights = {key: program.data[key] for key in program.constants}
    torch.manual_seed(3)
    expected = pytree.tree_leaves(case.run(*case.make(), **weights))
    for planned in (
        wir.plan_memory(without(program, Free), "pool"),
        in_arenas(without(program, Free), Cut.WHOLE),
    ):
        torch.manual_seed(3)
        got = wir.emit(planned, "python").load()(*case.make())
        same(pytree.tree_leaves(got), expected)


def same(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, torch.Tensor):
            assert torch.allclose(a, b, equal_nan=True)
        else:
            assert a == b


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
@given(strategies.programs())
def test_made_up_programs_do_the_same_in_arenas(program: Program) -> None:
    if program.stage is Stage.PLANNED:
        return
    program = without(program, Probe)
    program = program.replace(data={name: torch.ones(4, 4) for name in program.constants})
    ours, theirs = (run(in_arenas(program, cut)) for cut in random.Random(0).sample(list(Cut), 2))
    plain = run(wir.plan_memory(program, "none"))
    for got in (ours, theirs, run(wir.plan_memory(program, "pool"))):
        for a, b in zip(got, plain, strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def run(program: Program) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, 4, generator=generator) for _ in program.inputs]
    results = wir.emit(program, "python").load()(*inputs)
    return [r.clone() if isinstance(r, torch.Tensor) else r for r in (*results, *inputs)]
