"""Graphs of the faults whose programs are not what their graphs say, by the names of their files.

Each function is the graph as it is after Inductor's passes should have run: what it writes in
place, it writes in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from tests.fuzz.functions import flip, reverse_into
from wrapper_ir.interpreter import made_up_inputs

if TYPE_CHECKING:
    from wrapper_ir import Program


def clone_dropped(x: Tensor) -> Tensor:
    y = x.clone()
    reverse_into(x, y)
    return y


def scattered_into_input(x: Tensor, d: Tensor) -> Tensor:
    y = torch.slice_scatter(x, d, 0, 1, 3)
    x.zero_()
    return y


def copied_back(x: Tensor, d: Tensor) -> Tensor:
    y = torch.diagonal_scatter(x, d)
    x.copy_(y)
    return y


def bits_of_input(x: Tensor, d: Tensor) -> Tensor:
    y = x.clone()
    flip(y.view(torch.int32))
    y.diagonal().copy_(d)
    return y


def view_read_late(x: Tensor) -> Tensor:
    y = x.view(torch.int32) * 2
    x.fill_(2)
    return y


def argument_read_late(x: Tensor, d: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    reverse_into(x, y)
    x.add_(d)
    return y


def slot_of_read_argument(m: Tensor, g: Tensor, p: Tensor, h: Tensor) -> Tensor:
    m.lerp_(g, 0.05)
    p.add_(m, alpha=-0.01)
    return h.float() + 1


def slot_of_alias(x: Tensor, d: Tensor) -> Any:
    a = torch.sin(x)
    a.add_(d)
    b = torch.cos(x)
    return a, b + d


def slot_taken_early(x: Tensor) -> Tensor:
    a = torch.sin(x)
    b = torch.cos(x)
    return a + b


def buffer_inlined(x: Tensor, count: Tensor) -> Tensor:
    y = x * count
    count.add_(1)
    return y


def peers_memory_unwritten(x: Tensor) -> Tensor:
    return torch.neg(x + 1)


def first_row(b: Tensor) -> Tensor:
    b[1:].add_(100)
    return b[1]


def workspace_overrun(x: Tensor) -> Tensor:
    return torch.cumsum(x, 0)


def padding_written(x: Tensor) -> Tensor:
    return x * 2


def written_to_the_copy(x: Tensor) -> tuple[Tensor, ...]:
    x.add_(1)
    return ()


def write_removed(x: Tensor, d: Tensor) -> Tensor:
    reverse_into(d, x)
    return d.relu()


def kept_in_an_input(x: Tensor, d: Tensor) -> Tensor:
    return d.relu().sin()


def graph_of(name: str, program: Program) -> torch.fx.GraphModule | None:
    """Return the graph of a fault, for inputs as its program takes them; None if it has none."""
    function = globals().get(name)
    if function is None:
        return None
    made: torch.fx.GraphModule = make_fx(function, tracing_mode="fake")(*made_up_inputs(program, 0))
    return made
