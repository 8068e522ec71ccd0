"""Inputs that stay where they are: what torch knows of parameters is in programs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import compat, static_inputs


class Scaled(nn.Module):
    """Has a parameter, a buffer that it writes to, and takes a cache."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Tensor, cache: Tensor) -> Tensor:
        self.count.add_(1)
        return (x @ self.weight).sin() * self.count + cache.sum()


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU passes for a device whose calls can be captured."""
    monkeypatch.setattr(static_inputs, "kind_of", lambda _: SimpleNamespace(captures=True))


def static_shapes(program: wir.Program) -> list[tuple[object, ...]]:
    """Layouts' sizes of the static inputs."""
    inputs = [each for each in program.inputs if isinstance(each, wir.BufferInput)]
    return [program.layout(each.name).size for each in inputs if each.static]


def compiled(*, marks: bool = False) -> list[wir.Program]:
    torch._dynamo.reset()
    model, cache = Scaled(), torch.zeros(3, 3)
    if marks:
        torch._dynamo.mark_static_address(cache)
    x = torch.randn(2, 4, requires_grad=True)
    run = torch.compile(model, backend="wrapper_ir")
    with wir.record() as programs:
        result = run(x, cache)
        result.sum().backward()
    return list(programs)


@pytest.mark.usefixtures("on_a_gpu")
def test_parameters_and_buffers_are_static_and_what_is_saved_of_them() -> None:
    forward, backward = compiled()
    assert set(static_shapes(forward)) == {(4, 4), (4,)}
    assert " static\n" in str(forward)
    assert str(wir.parse(str(forward))) == str(forward)
    # The product and the gradient are made anew in each step.
    assert (4, 4) in static_shapes(backward)
    assert (2, 4) not in static_shapes(backward)


@pytest.mark.usefixtures("on_a_gpu")
def test_so_is_what_the_caller_marks() -> None:
    assert (3, 3) in static_shapes(compiled(marks=True)[0])
    assert (3, 3) not in static_shapes(compiled()[0])


@pytest.mark.usefixtures("on_a_gpu")
def test_so_is_a_buffer_behind_parameters_that_have_become_constants() -> None:
    torch._dynamo.reset()
    with compat.inductor_config.patch(freezing=True), torch.no_grad(), wir.record() as programs:
        torch.compile(Scaled().eval(), backend="wrapper_ir")(torch.randn(2, 4), torch.zeros(3, 3))
    assert static_shapes(programs[0]) == [(4,)]
    assert (4, 4) in [programs[0].layout(name).size for name in programs[0].constants]


def test_nothing_is_said_where_no_calls_are_captured() -> None:
    assert not any(map(static_shapes, compiled()))
