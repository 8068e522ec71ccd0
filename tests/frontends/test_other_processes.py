"""Graphs that Inductor has compiled by another process: what comes back is ours, too."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._inductor import compile_fx
from torch._inductor.utils import fresh_cache

import wrapper_ir as wir
from tests.models.watch import Watch, watch_inductor
from wrapper_ir.frontends.inductor import install

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    # Of a setting that Inductor itself hands to the other process.
    pytest.mark.filterwarnings("ignore:.* is deprecated and does not do anything:FutureWarning"),
]

X = torch.arange(25.0).reshape(5, 5) / 25


def step(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() @ x + torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5])).sum()


@pytest.fixture(autouse=True, params=["SERIALIZE", "SUBPROCESS"])
def _mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Inductor pickle what it compiles; the second mode also sends it away."""
    mode = compile_fx.FxCompileMode[request.param]
    monkeypatch.setattr(compile_fx, "fx_compile_mode", mode)
    with fresh_cache():
        yield


def trained() -> Watch:
    """Compile a forward and a backward and compare them with eager."""
    torch._dynamo.reset()
    grads: list[Any] = []
    with watch_inductor() as seen:
        for function in (step, torch.compile(step)):
            x = X.clone().requires_grad_()
            function(x).backward()
            grads.append(x.grad)
    torch.testing.assert_close(*grads)
    return seen


def ours(seen: Watch) -> list[bool]:
    return ["from wrapper_ir." in source for source in seen.sources]


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_a_request_takes_the_installation_along(
    request: pytest.FixtureRequest, emitter: str
) -> None:
    with install(emitter=emitter):
        seen = trained()
    assert ours(seen) == [True, True]
    if "SUBPROCESS" in request.node.name:
        assert seen.lowered == 0, "it was compiled here"
    assert ours(trained()) == [False, False]


def test_a_request_from_outside_the_installation_is_stocks() -> None:
    with install():
        assert ours(contextvars.Context().run(trained)) == [False, False]
        assert ours(trained()) == [True, True]


def test_programs_that_are_recorded_are_made_here() -> None:
    with install(), wir.record() as programs:
        seen = trained()
    assert ours(seen) == [True, True]
    assert seen.lowered == 2
    assert [program.role.value for program in programs] == ["forward", "backward"]
