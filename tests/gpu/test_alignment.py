"""Tensors that begin at odd addresses: arguments, and weights that are slices of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from pathlib import Path


def odd() -> Tensor:
    return torch.randn(64 * 64 + 1, device="cuda")[1:].view(64, 64)


def even() -> Tensor:
    return torch.randn(64, 64, device="cuda")


class Waves(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight + 1).sin()


def captured(weight: Tensor, x: Tensor) -> tuple[Waves, wir.Program]:
    torch._dynamo.reset()
    model = Waves(weight).requires_grad_(False)
    return model, wir.capture(model, (x,))


@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
def test_weights_of_captured_models(target: str) -> None:
    model, program = captured(odd(), even())
    x = even()
    torch.testing.assert_close(wir.compile(program, target)(x)[0], model(x))


@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
def test_weights_that_are_put_in_later(target: str) -> None:
    """Kernels were made for other addresses: an error, after which the GPU still works."""
    model, program = captured(even(), even())
    moved = program.replace(data={name: odd() for name in program.data})
    with pytest.raises(WrapperIRError, match="not aligned to 16 bytes"):
        wir.compile(moved, target)(even())
    x = even()
    torch.testing.assert_close(wir.compile(program, target)(x)[0], model(x))


def test_weights_of_packages_and_libraries(tmp_path: Path) -> None:
    model, program = captured(even(), even())
    x, others = even(), Waves(odd()).requires_grad_(False)
    package = wir.export(program, tmp_path / "model.pt2")
    with pytest.raises(WrapperIRError, match="not aligned to 16 bytes"):
        wir.load_package(package, weights=others.state_dict())(x)
    torch.testing.assert_close(wir.load_package(package)(x), model(x))
    library = wir.export(program, tmp_path / "model.so")
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 1, "cuda", "")
    (name,) = runner.get_constant_names_to_original_fqns()
    runner.update_constant_buffer({name: others.weight}, False, False, True)  # in its memory
    with pytest.raises(RuntimeError, match="not aligned to 16 bytes"):
        runner.run([x])
    runner.update_constant_buffer({name: others.weight}, False, False, False)  # copied
    for x in (even(), odd(), even()):
        torch.testing.assert_close(runner.run([x])[0], others(x))


class Writing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        return x.sin()


def test_inputs_that_are_written_to_are_refused_or_copied_back() -> None:
    program = wir.capture(Writing(), (even(),))
    with pytest.raises(WrapperIRError, match="not aligned to 16 bytes"):
        wir.compile(program)(odd())
    torch._dynamo.reset()
    run: Any = torch.compile(Writing(), backend="wrapper_ir")
    for x in (even(), odd(), odd()):
        y = x.clone()
        torch.testing.assert_close(run(x), Writing()(y))
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("target", ["python", "cpp"])
@pytest.mark.parametrize("options", [{}, {"cuda_graph": True}], ids=["plain", "captured"])
def test_jit(target: str, options: dict[str, Any]) -> None:
    model = Waves(odd()).requires_grad_(False)
    run = wir.jit(model, target=target, fallback=False, **options)
    for weight in (None, even(), odd()):
        if weight is not None:
            model.weight.data = weight
        for x in (even(), odd(), even(), odd()):
            torch.testing.assert_close(run(x), model(x))
    memory = torch.randn(64 * 64 + 4, device="cuda")
    both = wir.jit(lambda x, y: (x + 2 * y).sin(), target=target, fallback=False, **options)
    for at in (4, 3, 4, 3):
        x, y = memory[: 64 * 64], memory[at : at + 64 * 64]
        torch.testing.assert_close(both(x, y), (x + 2 * y).sin())


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_memory_for_results(target: str) -> None:
    model, program = captured(even(), even())
    run = wir.compile(program, target, out=True)
    for out in (even(), odd(), even()):
        x = even()
        (result,) = run(x, out=[out])
        assert result is out
        torch.testing.assert_close(out, model(x))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_compiled_models(emitter: str) -> None:
    torch._dynamo.reset()
    model = Waves(odd())
    run: Any = torch.compile(
        model, backend="wrapper_ir", options={"emitter": emitter, "build": "wait"}
    )
    for weight in (None, even(), odd()):
        if weight is not None:
            model.weight.data = weight
        for x in (even(), odd()):
            torch.testing.assert_close(run(x), model(x))


def test_frozen_weights() -> None:
    torch._dynamo.reset()
    model = Waves(odd()).requires_grad_(False)
    x = even()
    with torch._inductor.config.patch(freezing=True), torch.no_grad():
        run: Any = torch.compile(model, backend="wrapper_ir")
        torch.testing.assert_close(run(x), model(x))


@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("options", [{}, {"cuda_graph": True}], ids=["plain", "captured"])
def test_training(emitter: str, options: dict[str, Any]) -> None:
    """Also from the second call on, where torch's layers are left out."""
    torch._dynamo.reset()
    model, eager = Waves(odd()), Waves(odd())
    eager.load_state_dict(model.state_dict())
    ours = {"emitter": emitter, "build": "wait", **options}
    run: Any = torch.compile(model, backend="wrapper_ir", options=ours)
    for make_x, make_gradient in ((even, even), (even, odd), (odd, even), (odd, odd), (even, even)):
        x, gradient = make_x().requires_grad_(), make_gradient()
        y = x.detach().clone().requires_grad_()
        run(x).backward(gradient)
        eager(y).backward(gradient)
        assert x.grad is not None
        torch.testing.assert_close(x.grad, y.grad)
        torch.testing.assert_close(model.weight.grad, eager.weight.grad)
