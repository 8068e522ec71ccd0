"""Whole models: exported, made a program, emitted, run: the same numbers as eager."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.frontends_aten.support import differences
from tests.models.zoo import CASES, DYNAMIC, Case

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What torch.export refuses.
NOT_EXPORTABLE = ("graph_breaks",)

#: In eager these take a fused path that an exported graph does not have.
FUSED_IN_EAGER = ("torch_encoder", "decoder")

#: Large graphs, of ops that smaller ones have too.
SLOW = ("bert", "t5", "llama", "gpt2")


def params(cases: Iterable[Case]) -> list[Any]:
    """Return the cases that can be exported, those that take long being marked."""
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.models] if case.name in SLOW else [])
        for case in cases
        if case.name not in NOT_EXPORTABLE
    ]


def module_of(case: Case) -> torch.nn.Module:
    """Return the model, its weights without gradients: composite ops look at that, even inside of
    no_grad, and choose kernels by it whose last bits differ."""
    module, _ = case.make()
    return copy.deepcopy(module).eval().requires_grad_(False)


def arguments(case: Case, batch: int, seed: int) -> tuple[Any, ...]:
    return Case(case.name, case.build, batch, seed=seed).make()[1]


@pytest.mark.parametrize("case", params(CASES))
def test_the_program_of_an_exported_model_gives_the_same_to_the_bit(case: Case) -> None:
    module = module_of(case)
    exported = torch.export.export(module_of(case), arguments(case, case.batch, case.seed))
    reference = exported.module() if case.name in FUSED_IN_EAGER else module
    calls = tuple(arguments(case, case.batch, case.seed + n) for n in range(2))
    assert differences(wir.from_fx(exported), exported, reference, calls) == []


@pytest.mark.parametrize("name", ["conv_net", "input_mutation", "experts"])
def test_so_does_that_of_its_decomposition(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    exported = torch.export.export(module_of(case), arguments(case, case.batch, case.seed))
    exported = exported.run_decompositions({})
    calls = (arguments(case, case.batch, case.seed),)
    assert differences(wir.from_fx(exported), exported, module_of(case), calls) == []


def dynamic_shapes(case: Case) -> tuple[Any, ...]:
    """Mark the dimensions that follow the batch, their relation to it included."""
    batch = torch.export.Dim("batch", min=2, max=64)
    found = []
    for small, large in zip(case.make(11)[1], case.make(13)[1], strict=True):
        dims: dict[int, Any] = {}
        if isinstance(small, torch.Tensor) and isinstance(large, torch.Tensor):
            for dim, (a, b) in enumerate(zip(small.shape, large.shape, strict=True)):
                if a != b:
                    dims[dim] = batch
        found.append(dims or None)
    return tuple(found)


@pytest.mark.parametrize("case", params(DYNAMIC))
def test_one_program_serves_every_batch(case: Case) -> None:
    shapes = dynamic_shapes(case)
    exported = torch.export.export(
        module_of(case), arguments(case, case.batch, 0), dynamic_shapes=shapes
    )
    calls = tuple(arguments(case, batch, n) for n, batch in enumerate((2, 5, 9)))
    program = wir.from_fx(exported)
    assert differences(program, exported, module_of(case), calls) == []
    assert any(info.upper == 64 for info in program.symbols.values())
