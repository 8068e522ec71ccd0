"""Autocast stays outside of programs, for GPUs as for the CPU, whatever runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.interpreter import interpret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXT = """
wir 2
program @p inference planned
input %x : f32[4] @cpu
extern wir_autocast::seen(Tensor x) -> Tensor
  %y = wir_autocast::seen(%x) : f32[4] @cpu
return %y
"""


@pytest.fixture
def seen() -> Iterator[list[bool]]:
    """What an op sees of autocast, call by call."""
    found: list[bool] = []

    def op(x: Tensor) -> Tensor:
        found.append(any(map(torch.is_autocast_enabled, ("cpu", "cuda"))))
        return x.clone()

    library = torch.library.Library("wir_autocast", "FRAGMENT")
    library.define("seen(Tensor x) -> Tensor")
    library.impl("seen", op, "CPU")
    yield found
    library._destroy()


def interpreted(program: wir.Program) -> Callable[..., Any]:
    return lambda *inputs: interpret(program, *inputs)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("runner", ["python", "fx", "interpreter"])
def test_ops_of_programs_do_not_see_it(runner: str, kind: str, seen: list[bool]) -> None:
    program = wir.parse(TEXT)
    is_emitted = runner != "interpreter"
    function = wir.compile(program, runner) if is_emitted else interpreted(program)
    torch.set_autocast_enabled(kind, True)
    try:
        torch.ops.wir_autocast.seen(torch.ones(4))
        function(torch.ones(4))
        assert torch.is_autocast_enabled(kind)
    finally:
        torch.set_autocast_enabled(kind, False)
    assert seen == [True, False]
