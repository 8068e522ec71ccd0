"""Kept arenas from outside: a model called by many threads at once, and from inside itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.models.zoo import CASES
from wrapper_ir.planning import kept_pools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS = 8
CALLS = 6
DEEP = 3

TARGETS = pytest.mark.parametrize("target", ["python", "cpp"])


def kept(program: wir.Program, target: str) -> Callable[..., tuple[Any, ...]]:
    """The program with its memory kept; there is some."""
    planned = wir.plan_memory(program, arena="kept")
    assert kept_pools(planned)
    return wir.compile(planned, target, arena="kept")


@TARGETS
def test_eight_threads_at_once(target: str) -> None:
    case = next(case for case in CASES if case.name == "encoder")
    model, args = case.make()
    model.eval()
    run = kept(wir.capture(model, args), target)
    inputs = [(torch.randn_like(args[0]), args[1]) for _ in range(THREADS * CALLS)]
    expected = [run(*given)[0] for given in inputs]
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in range(CALLS):
            found = list(threads.map(lambda given: run(*given)[0], inputs))
            assert all(map(torch.equal, found, expected))


class Nested(nn.Module):
    """Two products, between them an op that may call what this was compiled to."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(48, 48), nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x).relu()
        kept_over_the_call = y * 2 + self.after(y)
        z = torch.ops.wir_kept_test.inside(x)
        return self.after(kept_over_the_call.tanh() + z).relu()


@pytest.fixture
def inside() -> Iterator[list[Callable[[Tensor], Tensor]]]:
    """What the op of ``Nested`` does: the last function of this list."""
    steps: list[Callable[[Tensor], Tensor]] = [torch.clone]
    library = torch.library.Library("wir_kept_test", "DEF")
    library.define("inside(Tensor x) -> Tensor")
    library.impl("inside", lambda x: steps[-1](x), "CPU")
    torch.library.register_fake("wir_kept_test::inside", torch.empty_like, lib=library)
    yield steps
    library._destroy()


@TARGETS
def test_calls_inside_calls(inside: list[Callable[[Tensor], Tensor]], target: str) -> None:
    model, x = Nested().eval(), torch.randn(5, 48)
    run = kept(wir.capture(model, (x,)), target)

    def nested(function: Callable[[Tensor], Tensor], depth: int) -> Callable[[Tensor], Tensor]:
        def step(value: Tensor) -> Tensor:
            inside.append(nested(function, depth - 1) if depth else torch.clone)
            try:
                return function(value * 0.5)
            finally:
                inside.pop()

        return step

    with torch.no_grad():
        inside.append(nested(model, DEEP))
        expected = model(x)
        inside[-1] = nested(lambda value: run(value)[0], DEEP)
        for _ in range(3):
            torch.testing.assert_close(run(x)[0], expected)
