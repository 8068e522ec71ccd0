"""The graphs of the programs in this folder that differ from what their graphs say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from tests.fuzz.functions import flip, reverse_into

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import GraphModule

_STATE = torch.ones(4)


def clone_dropped(x: Tensor) -> Tensor:
    y = x.clone()
    reverse_into(x, y)
    return y


def scattered_then_zeroed(x: Tensor, d: Tensor) -> Tensor:
    y = torch.slice_scatter(x, d, 0, 1, 3)
    x.zero_()
    return y


def read_as_bits(x: Tensor) -> Tensor:
    y = x.view(torch.int32) * 2
    x.fill_(2)
    return y


def read_alone(m: Tensor, p: Tensor) -> Tensor:
    p.add_(m)
    return p.clone()


def state_written(x: Tensor) -> Tensor:
    _STATE.add_(x)
    return x * _STATE


def other(x: Tensor) -> Tensor:
    return x + 3


def bits_of_a_copy(x: Tensor, d: Tensor) -> Tensor:
    y = x.clone()
    flip(y.view(torch.int32))
    return torch.diagonal_scatter(y, d)


def row_of_the_second(b: Tensor) -> Tensor:
    b.add_(100)
    return b[1:][0]


def copied_back(x: Tensor, d: Tensor) -> Tensor:
    y = torch.diagonal_scatter(x, d)
    x.copy_(y)
    return y


def sine_of_positive(x: Tensor, d: Tensor) -> Tensor:
    return d.relu().sin()


def reversed_beside(x: Tensor, d: Tensor) -> Tensor:
    reverse_into(d, x)
    return d.relu()


def one_more(x: Tensor) -> tuple[Tensor, ...]:
    x.add_(1)
    return ()


def reversed_into_a_copy(x: Tensor, d: Tensor) -> Tensor:
    y = x.clone()
    reverse_into(x, y)
    x.add_(d)
    return y


_LINE, _SQUARE = (4,), (4, 4)

#: By the program's file: the function, and the sizes of its arguments.
GRAPHS: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "pytorch_154442": (one_more, (_LINE,)),
    "pytorch_166009": (reversed_beside, (_SQUARE, _SQUARE)),
    "pytorch_169118": (state_written, (_LINE,)),
    "pytorch_174729": (other, (_LINE,)),
    "pytorch_183575": (read_alone, (_LINE, _LINE)),
    "pytorch_183611": (sine_of_positive, (_LINE, _LINE)),
    "pytorch_195451": (copied_back, (_SQUARE, _LINE)),
    "pytorch_197408": (bits_of_a_copy, (_SQUARE, _LINE)),
    "pytorch_198031": (clone_dropped, (_SQUARE,)),
    "pytorch_198094": (scattered_then_zeroed, (_SQUARE, (2, 4))),
    "pytorch_198095": (row_of_the_second, ((4, 6),)),
    "pytorch_198101": (read_as_bits, (_LINE,)),
    "read_after_a_later_write": (reversed_into_a_copy, (_SQUARE, _SQUARE)),
}


def graph_of(stem: str) -> GraphModule:
    """Return the graph of ATen ops, with fake values, that a program is not."""
    function, sizes = GRAPHS[stem]
    dtype = torch.float64 if stem == "pytorch_198095" else torch.float32
    arguments = [torch.ones(size, dtype=dtype) for size in sizes]
    made: GraphModule = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(
        *arguments
    )
    values = [node.meta["val"] for node in made.graph.find_nodes(op="placeholder")]
    for node in made.graph.find_nodes(op="get_attr"):  # all uses of the constant are one tensor
        node.meta["val"] = values[0].new_empty(4) if not values[1:] else values[1]
        values[1:] = [node.meta["val"]]
    return made
