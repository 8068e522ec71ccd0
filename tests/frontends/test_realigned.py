"""Inputs that Inductor expects at even addresses, which it does on GPUs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.analysis.borders import realigned_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _as_on_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch._dynamo.reset()
    monkeypatch.setattr("torch._inductor.compile_fx.is_gpu", lambda _: True)
    for module in ("compile_fx", "graph"):
        monkeypatch.setattr(
            f"torch._inductor.{module}.should_assume_input_aligned",
            torch._inductor.utils.tensor_is_aligned,
        )
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


def odd(*size: int) -> Tensor:
    return torch.rand(torch.Size(size).numel() + 1)[1:].view(size)


class Reading(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).sin() + y


class Writing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y


class Viewing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.t(), x + y


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize(
    ("model", "copied"),
    [(Reading(), 2), (Writing(), 1), (Viewing(), 2)],
    ids=lambda each: str(each),
)
def test_compiled(emitter: str, model: nn.Module, copied: int) -> None:
    """What is written to is copied back, by torch; views of arguments are made again."""
    options = {"emitter": emitter, "build": "wait"}
    with wir.record() as programs:
        run: Any = torch.compile(model, backend="wrapper_ir", options=options)
        for make in (torch.rand, odd, odd, torch.rand):
            x, y = make(4, 4), make(4, 4)
            other = x.clone()
            torch.testing.assert_close(run(x, y), model(other, y))
            torch.testing.assert_close(x, other)
    (program,) = programs
    assert len(realigned_inputs(program)) == copied


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_training(emitter: str) -> None:
    model = Reading()
    options = {"emitter": emitter, "build": "wait"}
    run: Any = torch.compile(model, backend="wrapper_ir", options=options)
    for make, make_gradient in ((torch.rand, odd), (odd, torch.rand), (odd, odd)):
        x, y, gradient = make(4, 4), make(4, 4), make_gradient(4, 4)
        found = []
        for function in (run, model):
            leaves = [each.detach().requires_grad_() for each in (x, y)]
            function(*leaves).backward(gradient)
            found.append([each.grad for each in leaves])
        torch.testing.assert_close(*found)


def test_captured(tmp_path: Path) -> None:
    """A result that is a view of an argument is one in a package, too: that is not copied."""
    x, y = torch.rand(4, 4), torch.rand(4, 4)
    for model, copied in ((Reading(), [0, 1]), (Writing(), [1]), (Viewing(), [1])):
        assert [*realigned_inputs(wir.capture(model, (x, y)))] == copied
    file = wir.export(wir.capture(Reading(), (x, y)), tmp_path / "model.pt2")
    for loaded in (wir.load_package(file), torch._inductor.aoti_load_package(str(file))):
        for make in (torch.rand, odd):
            given = make(4, 4), make(4, 4)
            torch.testing.assert_close(loaded(*given), Reading()(*given))
