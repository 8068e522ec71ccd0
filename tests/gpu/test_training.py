"""Training of a decoder whose attention is cuDNN's: gradients of every emitter against stock's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.gpu import TOKENS, WIDTH, Block
from tests.gpu.test_programs import no_tuning_by_time

__all__ = ["no_tuning_by_time"]


def trained(model: nn.Module, x: Tensor, **options: Any) -> list[Tensor]:
    """The gradients of a model's parameters and of its input."""
    torch._dynamo.reset()
    mine, x = copy.deepcopy(model), x.clone().requires_grad_()
    torch.compile(mine, **options)(x).square().mean().backward()
    found = [x.grad, *(each.grad for each in mine.parameters())]
    return [gradient for gradient in found if gradient is not None]


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_decoder(emitter: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block()).to("cuda", torch.bfloat16)
    x = torch.randn(2, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    expected = trained(model, x, backend="inductor")
    actual = trained(model, x, backend="wrapper_ir", options={"emitter": emitter})
    assert len(actual) == len(expected) == 1 + len(list(model.parameters()))
    for mine, other in zip(actual, expected, strict=True):
        # Backwards, cuDNN and cuBLAS may add up in another order from one call to the next.
        scale = other.abs().max().item()
        torch.testing.assert_close(mine, other, atol=2e-2 * scale, rtol=2e-2)
