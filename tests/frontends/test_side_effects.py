"""What a program does besides computing: it prints in order, and draws random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import statistics

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

# What a model prints while it runs is printed by its program too.

say: Any = torch._higher_order_ops.print


def talks(x: Tensor) -> Tensor:
    say("{} and {{}} and {size} in {what}", x, what=x * 2, size=x.shape[0])
    say("no more")
    return x + 1


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_every_emitter_prints_what_eager_prints(
    emitter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch._dynamo.reset()
    statistics.reset()
    x = torch.arange(3.0)
    torch._dynamo.mark_dynamic(x, 0)
    compiled = torch.compile(
        talks, backend="wrapper_ir", fullgraph=True, options={"emitter": emitter}
    )
    with wir.record() as programs:
        compiled(x)
    capsys.readouterr()
    for size in (3, 5):
        x = torch.arange(float(size))
        talks(x)
        expected = capsys.readouterr().out
        assert torch.equal(compiled(x), x + 1)
        assert capsys.readouterr().out == expected
        assert expected.count("\n") == 2
    wir.interpret(wir.plan_memory(programs[0]), *([5, x] if len(programs[0].inputs) == 2 else [x]))
    assert capsys.readouterr().out == expected
    assert (statistics.programs, statistics.fallbacks) == (1, 0)


# What is checkpointed draws the same numbers again, and leaves the generator as it should.


def model(x: Tensor, w: Tensor) -> Tensor:
    def inner(x: Tensor) -> Tensor:
        return torch.nn.functional.dropout((x @ w).sin(), 0.5) * torch.rand_like(x)

    checkpointed: Tensor = checkpoint(inner, x, use_reentrant=False)
    return checkpointed * torch.rand(8)


def trained(backend: str, emitter: str = "") -> list[Tensor]:
    """Two steps: results, gradients, the generator's state afterwards."""
    torch._dynamo.reset()
    torch.manual_seed(3)
    options = {"emitter": emitter} if emitter else {}
    compiled = torch.compile(model, backend=backend, fullgraph=True, options=options)
    found = []
    for _ in range(2):
        x, w = (torch.randn(8, 8, requires_grad=True) for _ in range(2))
        result = compiled(x, w)
        result.sum().backward()
        assert x.grad is not None
        assert w.grad is not None
        found += [result.detach(), x.grad, w.grad, torch.get_rng_state()]
    return found


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_checkpointed_random_ops(emitter: str) -> None:
    with torch._inductor.config.patch(fallback_random=True):
        expected = trained("inductor")
        statistics.reset()
        with wir.record() as programs:
            actual = trained("wrapper_ir", emitter)
    assert all(map(torch.equal, actual, expected))
    assert (statistics.programs, statistics.fallbacks) == (2, 0)
    text = "\n".join(map(str, programs))
    assert text.count(" = wrapper_ir_inductor::random_state(") == 4
    assert text.count("  wrapper_ir_inductor::set_random_state(") == 4
