"""Models whose calls are compared with eager's while something changes between calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 6


class Pair(NamedTuple):
    """A structured argument or result."""

    first: Tensor
    second: Tensor


class Cube(torch.autograd.Function):
    """A function whose gradient is its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 5 * x * gradient  # which is wrong, so that it can be told from a derivative


class Layers(nn.Module):
    """Called with two tensors and a number; what it computes is a function of ``body``."""

    def __init__(self, body: Callable[[Layers, Tensor, Tensor, float], Any]) -> None:
        super().__init__()
        self.body = body
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.other = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.batch = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(1.0)  # all or nothing, so that no random number is compared
        self.table = nn.Embedding(9, WIDTH)
        self.scale = 2.0
        self.steps = [1.0, 2.0]
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("memory", torch.zeros(WIDTH))

    def forward(self, x: Tensor, y: Tensor, k: float = 1.0) -> Any:
        return self.body(self, x, y, k)


def _in_place(m: Any, x: Tensor, y: Tensor, k: float) -> Any:
    x.mul_(k + 1)
    return x + y


def _counted(m: Any, x: Tensor, y: Tensor, k: float) -> Any:
    m.count += 1
    m.memory.copy_(x.detach().float().sum(0))
    return x * m.count + m.memory.to(x.dtype)


def _without_gradients(m: Any, x: Tensor, y: Tensor, k: float) -> Any:
    with torch.no_grad():
        kept = m.linear(x)
    return kept * m.linear(x)


def _with_gradients(m: Any, x: Tensor, y: Tensor, k: float) -> Any:
    with torch.enable_grad():
        return m.linear(x) * k


def _branching(m: Any, x: Tensor, y: Tensor, k: float) -> Any:
    if x.size(0) > 3:
        return m.linear(x)
    return x.sin() if x.requires_grad else x.cos()


def _mutates_both(m: Any, x: Tensor, y: Tensor, k: float) -> Any:
    y.add_(x)
    x.copy_(y * 2)
    return x.sum() + y.sum()


def _broken(m: Any, x: Tensor, y: Tensor, k: float) -> Any:
    made = m.linear(x).relu()
    torch._dynamo.graph_break()
    return made + y


MODELS: dict[str, Callable[[Any, Tensor, Tensor, float], Any]] = {
    "add": lambda m, x, y, k: x + y,
    "scaled": lambda m, x, y, k: x * k + y * m.scale,
    "linear": lambda m, x, y, k: m.linear(x),
    "mlp": lambda m, x, y, k: m.other(m.linear(x).relu()) + y,
    "norm": lambda m, x, y, k: m.norm(x) * k,
    "batch": lambda m, x, y, k: m.batch(m.linear(x)),
    "dropout": lambda m, x, y, k: m.drop(x * k) + y,
    "softmax": lambda m, x, y, k: (m.linear(x) / k).softmax(-1),
    "product": lambda m, x, y, k: x @ y.t(),
    "attention": lambda m, x, y, k: functional.scaled_dot_product_attention(
        *(each.unflatten(-1, (2, -1)).transpose(0, 1) for each in (x, m.linear(x), y))
    ),
    "embedding": lambda m, x, y, k: m.table((x.detach() > 0).long()) * k,
    "sum": lambda m, x, y, k: (x.sum(), (x * y).mean(0)),
    "cumulated": lambda m, x, y, k: (x * y).cumsum(0),
    "chosen": lambda m, x, y, k: torch.where(x > y, x * k, y),
    "in_place": _in_place,
    "mutates_both": _mutates_both,
    "counted": _counted,
    "itself": lambda m, x, y, k: (x, y * k),
    "turned": lambda m, x, y, k: (x.t(), y + 1),
    "chunks": lambda m, x, y, k: (x * y).chunk(2, -1),
    "view_and_base": lambda m, x, y, k: [made := x * k, made[1:]],
    "weight_returned": lambda m, x, y, k: (m.linear.weight, m.linear.weight.t(), x + 1),
    "tied": lambda m, x, y, k: functional.linear(m.linear(x), m.linear.weight),
    "detached": lambda m, x, y, k: m.linear(x).detach() + m.other(y),
    "without_gradients": _without_gradients,
    "with_gradients": _with_gradients,
    "branching": _branching,
    "structured": lambda m, x, y, k: {"pair": Pair(x * k, m.linear(y)), "size": x.size(0), "k": k},
    "own_function": lambda m, x, y, k: Cube.apply(m.linear(x)) + y,
    "checkpointed": lambda m, x, y, k: checkpoint(m.linear, x, use_reentrant=False) * y,
    "looped": lambda m, x, y, k: sum((m.linear(x) * step for step in m.steps), y),
    "broken": _broken,
    "integers": lambda m, x, y, k: (x.argmax(-1), (y > 0).sum()),
    "typed": lambda m, x, y, k: x.to(torch.float64) + y.float().exp().to(x.dtype),
}
