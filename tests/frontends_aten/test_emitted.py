"""From a program to a graph module of the FX emitter and back: a program of the same meaning."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import wrapper_ir as wir
from tests.emitters import corpus
from tests.emitters.fx import support
from tests.models.harness import unlike
from wrapper_ir.lines import KernelCall

pytest.importorskip("wrapper_ir.emitters.fx")

NOT_BACK = {"while_stacked": "while_loop_stack_output"}
"""Programs whose graph module has no form, with a part of the reason."""

STATIC_INSIDE = ("cond_integers", "cond_nested", "switch")
"""Programs whose graph module notes sizes inside of inner regions as numbers."""


def results_of(program: wir.Program, inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    given = copy.deepcopy(inputs)
    data = {name: value.clone() for name, value in program.data.items()}
    for name, constant in program.constants.items():
        if constant.tied_to is not None and data[name].shape == data[constant.tied_to].shape:
            data[name] = data[constant.tied_to]
    return list(wir.compile(program.replace(data=data))(*given)), given


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize(
    "name", [n for n in support.NAMES if n in corpus.CASES if n not in NOT_BACK]
)
def test_a_program_comes_back_with_its_meaning(name: str) -> None:
    program, inputs = corpus.program(name), corpus.CASES[name].make()
    module = wir.emit(program, "fx").graph_module
    try:
        back = wir.from_fx(module)
    except wir.VerificationError:
        assert name in STATIC_INSIDE  # refused, not wrong
        return
    ours, given = results_of(back, inputs)
    wanted, expected = results_of(program, inputs)
    assert len(ours) == len(wanted)
    pairs = zip([*ours, *given], [*wanted, *expected], strict=True)
    assert [why for a, b in pairs if (why := unlike(a, b))] == []


@pytest.mark.parametrize("name", ["shared_storage", "shared_symbolic", "written_layouts"])
def test_parts_of_memory_come_back_as_views(name: str) -> None:
    program, given = support.program(name), support.inputs(name, seed=1)
    back = wir.from_fx(support.emitted(program).graph_module)
    ours = support.run(wir.compile(back), given)
    assert support.differences(ours, support.expected(name, given)) == []
    again = support.run(support.emitted(wir.plan_memory(back)).graph_module, given)
    assert support.differences(again, ours) == []


@pytest.mark.parametrize("name", NOT_BACK)
def test_what_does_not_come_back_says_why(name: str) -> None:
    module = wir.emit(corpus.program(name), "fx").graph_module
    with pytest.raises(wir.WrapperIRError, match=NOT_BACK[name]):
        wir.from_fx(module)


def test_kernels_come_back_as_kernels() -> None:
    program = corpus.program("relu_twice")
    back = wir.from_fx(wir.emit(program, "fx").graph_module)
    ours = [line.kernel for line in back.body if isinstance(line, KernelCall)]
    assert ours == [line.kernel for line in program.body if isinstance(line, KernelCall)]
    assert back.kernels.keys() == program.kernels.keys()


def test_in_an_export_of_a_module_kernels_are_ops() -> None:
    program, inputs = corpus.program("relu_twice"), corpus.CASES["relu_twice"].make()
    module = wir.emit(program, "fx").graph_module
    exported = torch.export.export(module, tuple(inputs))
    back = wir.from_fx(exported)
    assert torch.equal(wir.compile(back)(*inputs)[0], wir.compile(program)(*inputs)[0])


def test_launches_come_back() -> None:
    program = corpus.program("triton")
    module = support.emitted(program).graph_module
    back = wir.from_fx(module)
    assert back.kernels["triton_poi_fused_relu_0"] == program.kernels["triton_poi_fused_relu_0"]
    (ours,) = (line for line in back.body if isinstance(line, KernelCall))
    (wanted,) = (line for line in program.body if isinstance(line, KernelCall))
    assert (ours.kernel, ours.device, len(ours.grid)) == (wanted.kernel, wanted.device, 1)
    again = support.emitted(wir.plan_memory(back)).graph_module
    (first,), (second,) = (
        [dict(node.kwargs) for node in each.graph.nodes if "triton" in str(node.target)]
        for each in (module, again)
    )
    assert first["kernel_idx"] == second["kernel_idx"]
    assert [*first["kwargs"]] == [*second["kwargs"]]
    assert str(second["kwargs"]["out_ptr0"]) == "y"


def test_launches_with_other_constants_are_refused() -> None:
    module = support.emitted(corpus.program("triton")).graph_module
    (node,) = (node for node in module.graph.nodes if "triton" in str(node.target))
    node.kwargs = {**node.kwargs, "kwargs": {**node.kwargs["kwargs"], "XBLOCK": 512}}
    with pytest.raises(wir.WrapperIRError, match="its constants differ from its kernel"):
        wir.from_fx(module)
