"""Calls of Inductor's kernels say how far they reach into their buffers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import wrapper_ir as wir
from tests.frontends.no_gpu import program_of
from wrapper_ir.lines import Allocate, KernelCall
from wrapper_ir.lines.args import buffers_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir import Program


def squares(x: Tensor) -> Tensor:
    return (x * x).sum(1)


def pieces(x: Tensor) -> Tensor:
    return torch.cat([x.relu(), x[1:].sin()], 0)


def padded(x: Tensor) -> Tensor:
    return functional.pad(x, (2, 3, 1, 1)) + 1


def looked_up(x: Tensor) -> Tensor:
    return x[torch.tensor([2, 0, 1])] * 2


def recorded(function: Callable[..., Any], *, dynamic: bool = False) -> Program:
    torch._dynamo.reset()
    with wir.record() as programs:
        compiled = torch.compile(function, backend="wrapper_ir", fullgraph=True, dynamic=dynamic)
        compiled(torch.ones(4, 6))
    (program,) = programs
    return program


def reaches(program: Program) -> list[dict[str, str]]:
    """What each call says, by buffer."""
    calls = [line for line in program.body if isinstance(line, KernelCall)]
    return [
        dict(zip((a.buffer for a in buffers_in(c.args)), map(str, c.reach), strict=True))
        for c in calls
        if c.reach
    ]


def test_the_largest_index_is_told_as_an_expression_of_sizes() -> None:
    (told,) = reaches(recorded(squares))
    assert sorted(told.values()) == ["24", "4"]
    (told,) = reaches(recorded(squares, dynamic=True))
    assert sorted(told.values()) == ["s27*s77", "s77"] or len(told) == 2


@pytest.mark.parametrize("function", [squares, pieces, padded, looked_up], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_nothing_is_said_to_reach_out_that_does_not(
    function: Callable[..., Any], dynamic: bool
) -> None:
    program = recorded(function, dynamic=dynamic)
    assert any(line.reach for line in program.body if isinstance(line, KernelCall))
    assert wir.diagnose(program) == ()
    text = wir.print_program(program)
    assert wir.parse(text).body == wir.parse(str(program)).body
    assert "reach [" in text


def test_what_a_mask_leaves_out_and_what_depends_on_data_is_not_counted() -> None:
    (told,) = reaches(recorded(padded))
    assert sorted(map(int, told.values())) == [0, 66]  # the input is read under a mask
    (told,) = reaches(recorded(looked_up))
    assert 0 in map(int, told.values())


def test_a_buffer_that_is_too_small_is_found() -> None:
    """Halve each allocation that a kernel writes to."""
    found = 0
    for function in (squares, pieces, padded):
        program = recorded(function)
        for line in program.body:
            if isinstance(line, Allocate):
                layout = program.buffers[line.out]
                less = dataclasses.replace(layout, size=(layout.size[0] // 2, *layout.size[1:]))
                buffers = {**program.buffers, line.out: less}
                codes = {each.code for each in wir.diagnose(program.replace(buffers=buffers))}
                assert codes & {"WIR1134", "WIR1045"}, line.out
                found += "WIR1134" in codes
    assert found >= 3


def scanned(x: Tensor) -> Tensor:
    return x.cumsum(0)


def test_each_block_of_a_scan_in_parts_has_its_share_of_the_workspace() -> None:
    program = program_of(scanned, (1 << 20,))
    (call,) = [line for line in program.body if isinstance(line, KernelCall)]
    assert wir.diagnose(program) == ()
    blocks, *_ = call.grid
    assert any(reach == 8 * blocks for reach in call.reach)
    # As many blocks as there are if each is half of the size that Inductor expects.
    many = (1 << 20) // 128
    reach = tuple(8 * many if each == 8 * blocks else each for each in call.reach)
    more = dataclasses.replace(call, grid=(many,), reach=reach)
    body = tuple(more if line is call else line for line in program.body)
    assert [each.code for each in wir.diagnose(program.replace(body=body))] == ["WIR1134"]
