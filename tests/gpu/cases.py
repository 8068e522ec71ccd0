"""Small models that Inductor turns into Triton kernels, copies and calls of cuBLAS and cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CASES", "Case"]


class Function(nn.Module):
    """A function as a module, which is what is captured."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Tensor) -> Any:
        return self._function(*args)


@dataclass(frozen=True)
class Case:
    """A model, what it is given, and which sizes of that are dynamic."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    dynamic: tuple[dict[int, Any], ...] | None = None


def t(*size: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> Tensor:
    return torch.randn(size, device=device).to(dtype)


def _function(
    function: Callable[..., Any],
    *sizes: tuple[int, ...],
    dynamic: tuple[dict[int, Any], ...] | None = None,
) -> Case:
    return Case(lambda: Function(function), lambda: tuple(t(*size) for size in sizes), dynamic)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 8))


def _conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()).eval()


class Attention(nn.Module):
    """Attention of four heads, added to what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, tokens, 3, 4, width // 4)
        mixed = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4))
        return x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


_ANY = torch.export.Dim.DYNAMIC

CASES: dict[str, Case] = {
    "pointwise": _function(lambda x, w: torch.relu(x @ w) * 2 + x, (64, 64), (64, 64)),
    "reduction": _function(lambda x: ((x + 1).sum(-1), x.amax(0)), (64, 300)),
    "reduction_in_two_steps": _function(lambda x: (x * 2).sum(), (1 << 20,)),
    "softmax": _function(lambda x: torch.softmax(x, -1), (32, 128)),
    "transpose": _function(lambda x: (x.t() + 1).contiguous(), (70, 50)),
    # Of integers: parts wait for each other, and the order decides the last bit of sums.
    "scan_in_parts": Case(
        lambda: Function(lambda x: x.cumsum(-1)),
        lambda: (torch.randint(-9, 9, (4, 20000), device="cuda"),),
    ),
    "cat": _function(lambda x, y: torch.cat([x + 1, y * 2]), (8, 16), (4, 16)),
    "views": _function(lambda x: (x[:, 1:] * 2, x.view(torch.int32) + 1), (8, 16)),
    "sort": _function(lambda x: x.sort(-1).values + 1, (8, 100)),
    "narrow_types": _function(lambda x: (x.half() * 2).bfloat16().sin(), (8, 16)),
    "empty": _function(lambda x: x[:0] + 1, (8, 16)),
    "nonzero": _function(lambda x: (x > 0).nonzero() + 1, (8, 16)),
    "to_the_host": _function(lambda x: (x + 1).cpu() * 2, (8, 16)),
    "dynamic": _function(
        lambda x, w: (torch.relu(x @ w) * 2, (x + 1).sum(-1)),
        (48, 64),
        (64, 64),
        dynamic=({0: _ANY}, {}),
    ),
    "from_the_host": Case(
        lambda: Function(lambda x, y: x + y.cuda()), lambda: (t(8, 16), t(8, 16, device="cpu"))
    ),
    "number_of_the_host": Case(
        lambda: Function(lambda x, s: x * s), lambda: (t(8, 16), torch.tensor(3.5))
    ),
    "embedding": Case(
        lambda: Function(lambda i, w: functional.embedding(i, w) + 1),
        lambda: (torch.randint(0, 64, (4, 8), device="cuda"), t(64, 16)),
    ),
    "mlp": Case(_mlp, lambda: (t(32, 64),)),
    "conv": Case(_conv, lambda: (t(2, 3, 16, 16),)),
    "attention": Case(Attention, lambda: (t(2, 10, 64),)),
}
