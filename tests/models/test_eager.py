"""No call of any model of the zoo differs from eager execution by more than rounding.

Nor is a program of one anything but what its graph says.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.models.zoo import CASES, TRAINING, Case
from wrapper_ir.debug_printer import bisect, calls_of
from wrapper_ir.interpreter import made_up_inputs

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

#: What `torch.export` does not take.
NOT_EXPORTED = ("graph_breaks",)


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in NOT_EXPORTED], ids=str)
def test_inference(case: Case) -> None:
    model, args = case.make()
    with torch.no_grad(), wir.record() as programs:
        wir.capture(model.eval(), args)
    check(programs, [pytree.tree_leaves(args)])


@pytest.mark.parametrize("case", TRAINING, ids=str)
def test_training(case: Case) -> None:
    """Forward and backward, with made-up numbers for what goes from one to the other."""
    torch.compiler.reset()
    model, args = case.make()
    with wir.record() as programs:
        results = torch.compile(model.train(), backend="wrapper_ir")(*args)
        leaves = [x for x in pytree.tree_leaves(results) if getattr(x, "requires_grad", False)]
        torch.stack([x.sum() for x in leaves]).sum().backward()
    check(programs, [made_up_inputs(program, 0) for program in programs])


def check(programs: Any, inputs: list[Any]) -> None:
    assert programs
    for program, graph, given in zip(programs, programs.graphs, inputs, strict=True):
        validation = wir.validate(program, graph)
        assert validation.ok, str(validation)
        assert len(validation.not_shown) <= 0.05 * validation.lines, str(validation)
        found = bisect(program, given, b="eager", graph=graph)
        assert not found, str(found)
        least = min(2, len(list(calls_of(program))))
        assert found.compared >= least or "depend on random numbers" in found.skipped
