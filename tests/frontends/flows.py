"""Functions with choices, loops and called subgraphs, and calls of each that take every way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, _higher_order_ops, nn
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as map_rows
from torch.compiler import nested_compile_region

__all__ = ["BIG", "FLOWS", "HAS_SWITCH", "UNBACKED", "Flow", "among_layers", "normal"]

#: Whether this release of torch has choices among many.
HAS_SWITCH = hasattr(_higher_order_ops, "switch")
switch: Any = getattr(_higher_order_ops, "switch", None)

#: What Dynamo needs to be told for numbers that the data decide.
UNBACKED = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


@dataclass(frozen=True)
class Flow:
    """A function and the arguments of its calls.

    Attributes:
        make: Makes the function, or a module with weights.
        calls: The arguments of each call.
        trains: Whether gradients are compared, too.
        dynamic: As for ``torch.compile``.
        config: Settings of Dynamo's.
    """

    make: Callable[[], Callable[..., Any]]
    calls: tuple[tuple[Any, ...], ...]
    trains: bool = False
    dynamic: bool | None = None
    config: dict[str, Any] = field(default_factory=dict)


def normal(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size)))


TRUE, FALSE = torch.tensor(True), torch.tensor(False)


def count(number: int) -> Tensor:
    return torch.tensor(number)


def both(*args: Any) -> tuple[tuple[Any, ...], ...]:
    return ((TRUE, *args), (FALSE, *args))


def rounds(*args: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple((count(n), *args) for n in (0, 1, 4))


# Choices.


def nested(p: Tensor, x: Tensor, y: Tensor) -> Any:
    def then(a: Tensor, b: Tensor) -> Tensor:
        return torch.cond(a.sum() > 0, lambda c, d: c * d, lambda c, d: c - d * y, (a, b))

    return torch.cond(p, then, lambda a, b: (a + b).sin(), (x * 2, y))


def by_size(x: Tensor, y: Tensor) -> Tensor:
    def then(a: Tensor, b: Tensor) -> Tensor:
        return a.sum(0) * a.shape[0]

    return torch.cond(x.size(0) > y.size(0), then, lambda a, b: b.sum(0) / 3, (x, y))


def differing_sizes(p: Tensor, x: Tensor) -> Tensor:
    found = torch.cond(p, lambda a: (a + 1)[2:].sin(), lambda a: (a - 1)[:2].cos(), (x,))
    return x.sum() - found


def views_and_copies(p: Tensor, x: Tensor) -> Any:
    def then(a: Tensor) -> Any:
        return (a + 1)[1:], a.clone(), a.sum(1)

    return torch.cond(p, then, lambda a: ((a * 2)[1:], a.sin(), a.sum(1)), (x[:-1],))


def changed_afterwards(p: Tensor, x: Tensor) -> Any:
    y = torch.cond(p, lambda a: a.sin(), lambda a: a.cos(), (x,))
    x.add_(y)
    return x * y


def by_number(x: Tensor, n: Tensor) -> Tensor:
    k = n.item()
    return torch.cond(k > 10, lambda a: a * 2, lambda a: a + k, (x,))


def found_inside(p: Tensor, x: Tensor) -> Tensor:
    sizes = x.nonzero()
    n = sizes.size(0)
    return torch.cond(
        p, lambda a: a.nonzero().sum() + n, lambda a: (a * n).nonzero().sum(), (sizes,)
    )


def table(p: Tensor, x: Tensor) -> Tensor:
    """A choice with a constant inside, which Inductor does not put into a kernel."""
    wide = [float(n) for n in range(20)]
    return torch.cond(p, lambda a: a + torch.tensor(wide), lambda a: a * torch.tensor(wide), (x,))


class Experts(nn.Module):
    """Two layers, of which each call uses one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one = nn.Linear(6, 5)
        self.two = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 5))

    def forward(self, p: Tensor, x: Tensor) -> Any:
        return torch.cond(p, lambda a: self.one(a + 1), lambda a: self.two(a).sin(), (x,))


# Choices among many.


def nested_in_many(i: Tensor, x: Tensor, y: Tensor) -> Any:
    def last(a: Tensor, b: Tensor) -> Any:
        c = torch.cond(b.sum() > 0, lambda c: c.sin() * y, lambda c: c.cos(), (a,))
        return switch(i - 2, (lambda d: d + 1, lambda d: d * y, lambda d: d - y), (c,)), b.clone()

    cases = (lambda a, b: (a + b, a.sin()), lambda a, b: (a * b, b.flip(0) * 2), last)
    return switch(i, cases, (x * 2, y))


def by_rows(x: Tensor, y: Tensor) -> Any:
    cases = (lambda a: a.sum(0), lambda a: a.mean(0) * a.shape[0], lambda a: a.amax(0) - y)
    return switch(x.size(0) - 2, cases, (x,))


def many_by_number(n: Tensor, x: Tensor) -> Any:
    k = n.item()
    return switch(k - 3, (lambda a: a * 2, lambda a: a + k, lambda a: a.cos()), (x,))


class Mixture(nn.Module):
    """Three layers, of which each call uses one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.experts = nn.ModuleList(nn.Linear(6, 5) for _ in range(3))

    def forward(self, i: Tensor, x: Tensor) -> Any:
        one, two, three = self.experts
        cases = (lambda a: one(a), lambda a: two(a).sin(), lambda a: three(a.relu()) * 2)
        return switch(i, cases, (x + 1,))


def among_layers() -> Mixture:
    return Mixture()


def numbered(numbers: Sequence[int], *args: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple((count(n), *args) for n in numbers)


# Loops.


def doubled_until(n: Tensor, x: Tensor, y: Tensor) -> Any:
    return while_loop(
        lambda i, a, b: i > 0, lambda i, a, b: (i - 1, (a + b).sin(), b - a), (n, x, y)
    )


def loop_in_loop(n: Tensor, x: Tensor) -> Any:
    def body(i: Tensor, a: Tensor) -> Any:
        _, a = while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, b * 1.5), (i * 0, a))
        return i - 1, torch.cond(a.sum() > 0, lambda b: b - 1, lambda b: b + 2, (a,))

    return while_loop(lambda i, a: i > 0, body, (n, x))


def swapped(n: Tensor, x: Tensor) -> Any:
    return while_loop(
        lambda i, a, b: i > 0, lambda i, a, b: (i - 1, b.clone(), a.clone()), (n, x, x + 1)
    )


def stacked(n: Tensor, x: Tensor) -> Any:
    stack = torch.ops.higher_order.while_loop_stack_output
    _, found = stack(lambda i, a: i < 3, lambda i, a: (i + 1, a.flip(0) * 1.5), (n, x), ())
    return found[1:].sin(), found.shape[0]


def never(n: Tensor, x: Tensor) -> Any:
    i, y = while_loop(lambda i, a: a.size(-1) == 0, lambda i, a: (i - 1, a + 1), (n, x.sin()))
    return i + 1, y + 2


def running_sum(x: Tensor) -> Any:
    return scan(lambda c, e: (c + e, (c * e).sin()), torch.zeros_like(x[0]), x)


def rows(x: Tensor, y: Tensor) -> Any:
    return map_rows(lambda a, b: (a.sin() + b).cumsum(0), x, y)


# Called subgraphs.


@nested_compile_region
def region(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y).sort().values.sin() + 1


@nested_compile_region
def choosing(p: Tensor, x: Tensor) -> Any:
    return torch.cond(p, lambda a: a.sin(), lambda a: a.cos(), (x,)), x[1:] * 2


def called_twice(p: Tensor, x: Tensor) -> Any:
    y = region(x, region(x, x + 1))
    z, part = choosing(p, y)
    z, _ = choosing(~p, z)
    return z, part


class Layer(nn.Module):
    """A layer whose code the layers of a network share."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    @nested_compile_region
    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(x).relu()


class Layers(nn.Module):
    """A network of equal layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(Layer(), Layer(), Layer())

    def forward(self, x: Tensor) -> Any:
        return self.layers(x)


def everything(p: Tensor, n: Tensor, x: Tensor) -> Any:
    """All kinds in one another."""

    def then(a: Tensor) -> Any:
        last, each = scan(lambda c, e: (c + e, c * e), torch.zeros_like(a[0]), a)
        return region(last[None], a.t()).sum(), each

    def orelse(a: Tensor) -> Any:
        _, b = while_loop(lambda i, b: i > 0, lambda i, b: (i - 1, b * 1.5), (n, a))
        return b.mean(), map_rows(lambda row: row.flip(0), b)

    total, each = torch.cond(p, then, orelse, (x * 2,))
    return region(each, x.t()) * total, each[1:]


X = normal(4, 3)

FLOWS = {
    "nested choices": Flow(lambda: nested, both(normal(4, 5), normal(5, 4).t())),
    "a loop": Flow(lambda: doubled_until, rounds(X, X + 1)),
    "a scan": Flow(lambda: running_sum, ((X,), (normal(7, 3),)), dynamic=True, config=UNBACKED),
    "regions called twice": Flow(lambda: called_twice, both(normal(4, 4))),
    "a choice between layers, trained": Flow(Experts, both(normal(4, 6)), trains=True),
}

#: Those left to ``make models``.
BIG = {
    "a choice by size": Flow(
        lambda: by_size, ((X, X[:2]), (X[:2], X), (normal(5, 3), normal(6, 3))), dynamic=True
    ),
    "a choice of sizes": Flow(lambda: differing_sizes, both(normal(4, 4)), dynamic=True),
    "views and copies": Flow(lambda: views_and_copies, both(normal(4, 4))),
    "changed afterwards": Flow(lambda: changed_afterwards, both(X)),
    "a choice by a number": Flow(
        lambda: by_number, ((X, count(3)), (X, count(30))), config=UNBACKED
    ),
    "sizes found inside": Flow(
        lambda: found_inside, both(torch.tensor([1.0, 0, 2, 0, 3])), config=UNBACKED
    ),
    "a loop in a loop": Flow(lambda: loop_in_loop, rounds(X)),
    "a loop that swaps": Flow(lambda: swapped, rounds(X)),
    "stacked rounds": Flow(lambda: stacked, rounds(X)[:2], config=UNBACKED),
    "a loop that never runs": Flow(lambda: never, rounds(X), config=UNBACKED),
    "a loop, trained": Flow(lambda: doubled_until, rounds(X, X + 1), trains=True, config=UNBACKED),
    "a scan, trained": Flow(lambda: running_sum, ((X,),), trains=True, config=UNBACKED),
    "rows": Flow(lambda: rows, ((X, X[0]), (normal(6, 3), X[1])), dynamic=True, config=UNBACKED),
    # Without gradients and with dynamic sizes Dynamo of torch 2.13 fails, whatever the backend.
    "layers": Flow(Layers, ((normal(3, 6),), (normal(5, 6),))),
    "layers, trained": Flow(Layers, ((normal(3, 6),),), trains=True),
    "everything": Flow(
        lambda: everything,
        tuple((p, count(n), X) for p in (TRUE, FALSE) for n in (0, 2)),
        config=UNBACKED,
    ),
}

if HAS_SWITCH:
    FLOWS |= {
        "a choice among many": Flow(
            lambda: nested_in_many, numbered((-1, 0, 1, 3, 9), X @ X.t(), X @ X.t())
        ),
        "a choice among layers, trained": Flow(
            Mixture, numbered((0, 1, 2), normal(4, 6)), trains=True
        ),
    }
    BIG |= {
        "a choice among many by size": Flow(
            lambda: by_rows, tuple((normal(n, 3), X[0]) for n in (2, 3, 7)), dynamic=True
        ),
        "a choice among many by a number": Flow(
            lambda: many_by_number, numbered((0, 3, 4, 9), X), config=UNBACKED
        ),
    }
