"""Ops with effects that torch keeps in order, by tokens: each is called as often as in eager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    # Dynamo looks at the gradients of arguments that are no leaves,
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    # and makes an object of a function with gradients of its own, until 2.12.
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

effects: Any = pytest.importorskip("torch._higher_order_ops.effects")
ops: Any = torch.ops.wir_ordered

#: What the ops were called with.
told: list[tuple[int, Tensor]] = []


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    """Ops that note what they are called with; the second one returns something, too."""

    def tell(x: Tensor, n: int) -> None:
        told.append((n, x.detach().clone()))

    def twice(x: Tensor, n: int) -> Tensor:
        tell(x, n)
        return x * 2

    torch._dynamo.reset()
    statistics.reset()
    with torch.library._scoped_library("wir_ordered", "FRAGMENT") as library:
        library.define("tell(Tensor x, int n) -> ()")
        library.define("twice(Tensor x, int n) -> Tensor")
        for name, function in (("tell", tell), ("twice", twice)):
            library.impl(name, function, "CompositeExplicitAutograd")
        library.impl("tell", lambda x, n: None, "Meta")
        library.impl("twice", lambda x, n: torch.empty_like(x), "Meta")
        handles = [
            effects._register_effectful_op(getattr(ops, name).default, effects._EffectType.ORDERED)
            for name in ("tell", "twice")
        ]
        yield
        for handle in handles:
            handle.destroy()


class Doubled(torch.autograd.Function):
    """An op whose backward has an effect, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return ops.twice(x, 7)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        ops.tell(gradient, 8)
        return gradient * 2


def in_order(x: Tensor) -> Tensor:
    ops.tell(x, 1)
    y = x.sin()
    ops.tell(y, 2)
    ops.tell(x, 3)
    return y + 1


def before_and_after_writes(x: Tensor) -> Tensor:
    ops.tell(x, 1)
    x.add_(1)
    ops.tell(x, 2)
    y = x + 1
    y.mul_(2)
    ops.tell(y, 3)
    return y


def for_nothing(x: Tensor) -> Tensor:
    """The input is saved where the token was: it is a result with the caller's memory."""
    ops.twice(x, 1)
    return x.sin()


def in_a_checkpoint(x: Tensor) -> Tensor:
    ops.tell(x, 1)
    found: Tensor = checkpoint(lambda x: x.sin().cos(), x, use_reentrant=False)
    return found


def the_same_again(x: Tensor) -> Tensor:
    found: Tensor = ops.twice(x.detach(), 1) + ops.twice(x.detach(), 1)
    return found * x


def on_the_way_back(x: Tensor) -> Tensor:
    found: Tensor = Doubled.apply(x)
    return found + 1


def of_sizes(x: Tensor) -> Tensor:
    ops.tell(x, x.shape[0])
    return x + x.shape[0]


def nothing_else(x: Tensor) -> None:
    ops.tell(x, 1)


FUNCTIONS = [
    *(in_order, before_and_after_writes, for_nothing, in_a_checkpoint, the_same_again),
    *(on_the_way_back, of_sizes, nothing_else),
]


def outcome(function: Callable[[Tensor], Any], size: int, *, training: bool) -> list[Any]:
    """Result, argument, gradient, and what was told."""
    told.clear()
    leaf = torch.linspace(-1, 1, size * 2).view(size, 2).requires_grad_(training)
    x = leaf * 1
    found = function(x)
    if training and found is not None:
        found.sum().backward()
    return [found, x, leaf.grad, *(part for call in told for part in call)]


def check(function: Callable[[Tensor], Any], run: Callable[[Tensor], Any], training: bool) -> None:
    for size in (3, 3, 5):
        wanted = outcome(function, size, training=training)
        torch.testing.assert_close(outcome(run, size, training=training), wanted)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("function", "emitter"),
    [
        *((each, "python") for each in FUNCTIONS),
        *((each, name) for each in (for_nothing, on_the_way_back) for name in ("cpp", "fx")),
    ],
)
def test_compiled(function: Callable[[Tensor], Any], emitter: str, training: bool) -> None:
    options = {"emitter": emitter, "build": "wait"}
    run = torch.compile(function, backend="wrapper_ir", fullgraph=True, options=options)
    check(function, run, training)
    assert statistics.programs
    assert not statistics.fallbacks


@pytest.mark.filterwarnings("ignore:.*it writes to an argument while gradients:UserWarning")
@pytest.mark.filterwarnings("ignore:.*it uses Tensor.grad_fn:UserWarning")  # a checkpoint of 2.11
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_jit(function: Callable[[Tensor], Any], training: bool) -> None:
    check(function, wir.jit(function), training)


@pytest.mark.parametrize("function", [before_and_after_writes, for_nothing, nothing_else])
def test_captured(function: Callable[[Tensor], Any]) -> None:
    """Sizes are fixed in this program."""
    program = wir.capture(function, (torch.ones(3, 2),))
    for emitter in ("python", "cpp", "fx"):
        run = wir.compile(program, emitter)

        def call(x: Tensor, run: Any = run) -> Any:
            return next(iter(run(x)), None)

        wanted = outcome(function, 3, training=False)
        torch.testing.assert_close(outcome(call, 3, training=False), wanted)
