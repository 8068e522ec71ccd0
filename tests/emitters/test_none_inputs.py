"""Inputs for which a program takes None and nothing else: the same in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.runtime import InputLayoutError

PROGRAM = """\
wir 2
program @shifted inference logical

symbol n : none
input %x : f32[2] @cpu
input n

extern aten::relu(Tensor self) -> Tensor

  %y = aten::relu(%x) : f32[2] @cpu
return %y
"""

Run = Callable[..., Any]


def ways() -> dict[str, Callable[[wir.Program], Run]]:
    found = {name: lambda p, name=name: wir.compile(p, name) for name in ("python", "fx", "cpp")}
    return {**found, "interpreter": lambda p: lambda *inputs: wir.interpret(p, *inputs)}


@pytest.mark.parametrize("way", ways())
def test_none_is_taken_and_nothing_else(way: str) -> None:
    program = wir.parse(PROGRAM)
    assert str(program) == PROGRAM
    run = ways()[way](program)
    x = torch.tensor([-1.0, 2.0])
    assert torch.equal(run(x, None)[0], x.relu())
    for other in (3, 0, False, x):
        with pytest.raises(InputLayoutError, match="'n' has the wrong type: expected None"):
            run(x, other)


def test_inductor_captures_it() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, n: int | None = None) -> Tensor:
            return x.view(2, 2) if n is None else x * n

    program = wir.capture(Scaled(), (torch.ones(4), None))
    run = wir.compile(program, "fx")
    assert run(torch.ones(4), None)[0].shape == (2, 2)
    with pytest.raises(InputLayoutError, match="expected None"):
        run(torch.ones(4), 3)


def test_it_is_no_number() -> None:
    used = wir.parse(PROGRAM.replace("return %y", "return %y, n + 1"))
    (problem,) = wir.diagnose(used)
    assert "symbol n is none, but" in str(problem)
