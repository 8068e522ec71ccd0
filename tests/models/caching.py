"""Compiling one small model through Inductor's caches, here or in a process of its own.

Run as a module it compiles once and prints what happened as JSON; the tests start it so.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tests import warm
from tests.models.watch import watch_inductor

__all__ = ["Outcome", "compile_apart", "compile_once"]


@dataclass(frozen=True)
class Outcome:
    """What a compilation did.

    Attributes:
        lowered: Graphs that Inductor lowered anew; the rest came from a cache.
        sources: The text of each compiled graph's module.
        result: Every number that came out, gradients included.
    """

    lowered: int
    sources: list[str]
    result: list[float]

    @property
    def is_ours(self) -> bool:
        """Whether all of the code that ran was emitted by us; all or nothing is expected."""
        ours = ["wrapper_ir.runtime" in source for source in self.sources]
        assert self.sources
        assert all(ours) or not any(ours)
        return ours[0]


class Net(torch.nn.Module):
    """A linear layer and a constant that makes the graph, and so its cache keys, unlike others."""

    def __init__(self, constant: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)
        self.constant = constant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x).sin() * self.constant).softmax(-1)


def compile_once(
    backend: str, constant: float, *, training: bool, options: dict[str, Any] | None = None
) -> Outcome:
    """Compile the model anew, as far as caches let it, and run it."""
    torch._dynamo.reset()
    model = Net(constant)
    x = torch.linspace(-1, 1, 32).view(4, 8)
    with watch_inductor() as seen, torch.set_grad_enabled(training):
        result = torch.compile(model, backend=backend, options=options)(x)
        if training:
            result.square().sum().backward()
    numbers = [result.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
    flat = [number for tensor in numbers for number in tensor.flatten().tolist()]
    return Outcome(seen.lowered, seen.sources, flat)


def compile_apart(backend: str, constant: float, *, training: bool, **options: Any) -> Outcome:
    """Do the same in a fresh process that shares this one's caches on disk."""
    request = json.dumps([backend, constant, training, options or None])
    program = "import runpy; runpy.run_module('tests.models.caching', run_name='__main__')"
    done = warm.run(program, request)
    assert done.returncode == 0, done.stderr
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    _backend, _constant, _training, _options = json.loads(sys.argv[1])
    _outcome = compile_once(_backend, _constant, training=_training, options=_options)
    print(json.dumps(asdict(_outcome)))
