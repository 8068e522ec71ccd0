"""Graph modules of the FX emitter as sources: kernels and checks are ops like others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import wrapper_ir as wir
from tests.emitters import corpus
from tests.emitters.fx import support
from tests.models.harness import unlike

pytest.importorskip("wrapper_ir.emitters.fx")

NAMES = (
    *("relu_twice", "cond", "input_mutation", "list_results", "pools_symbolic", "unbacked"),
    *("shared_storage", "views", "while"),
)


def results_of(program: wir.Program, inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    given = copy.deepcopy(inputs)
    data = {name: value.clone() for name, value in program.data.items()}
    return list(wir.compile(program.replace(data=data))(*given)), given


@pytest.mark.parametrize("name", NAMES)
def test_a_program_comes_back_with_its_meaning(name: str) -> None:
    program, inputs = support.program(name), support.inputs(name, seed=1)
    back = wir.from_fx(wir.emit(program, "fx").graph_module)
    ours, given = results_of(back, inputs)
    wanted, expected = results_of(program, inputs)
    pairs = zip([*ours, *given], [*wanted, *expected], strict=True)
    assert [why for a, b in pairs if (why := unlike(a, b))] == []


def test_in_an_export_of_a_module_kernels_are_ops() -> None:
    program, inputs = corpus.program("relu_twice"), corpus.CASES["relu_twice"].make()
    module = wir.emit(program, "fx").graph_module
    exported = torch.export.export(module, tuple(inputs))
    back = wir.from_fx(exported)
    assert torch.equal(wir.compile(back)(*inputs)[0], wir.compile(program)(*inputs)[0])


@pytest.mark.parametrize(
    ("name", "why"),
    [("triton", "'triton_kernel_wrapper_mutation'"), ("while_stacked", "while_loop_stack_output")],
)
def test_what_does_not_come_back_says_why(name: str, why: str) -> None:
    module = wir.emit(support.program(name), "fx").graph_module
    with pytest.raises(wir.WrapperIRError, match=why):
        wir.from_fx(module)
