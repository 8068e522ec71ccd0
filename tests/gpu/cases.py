"""Small models that Inductor turns into Triton kernels, copies and calls of cuBLAS and cuDNN."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

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
    """A model, what it is given, which sizes of that are dynamic, and settings of Inductor's."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    dynamic: tuple[dict[int, Any], ...] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


def t(*size: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> Tensor:
    return torch.randn(size, device=device).to(dtype)


def _function(
    function: Callable[..., Any],
    *sizes: tuple[int, ...],
    dynamic: tuple[dict[int, Any], ...] | None = None,
    dtype: torch.dtype = torch.float32,
    **config: Any,
) -> Case:
    def inputs() -> tuple[Tensor, ...]:
        return tuple(t(*size, dtype=dtype) for size in sizes)

    return Case(lambda: Function(function), inputs, dynamic, config)


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


def _flex(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score - (i - j).abs() * 0.1)


def _seeded(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.rand_like(x) + functional.dropout(x, 0.3), torch.randint_like(x, 0, 9)


_ANY = torch.export.Dim.DYNAMIC


def _template(columns: int) -> dict[str, Any]:
    """Have Inductor take one template for a product, and so time nothing.

    Timing decides too what is fused with it, and a fused kernel rounds less.
    """
    only = f"BLOCK_K=64, BLOCK_M=64, BLOCK_N={columns},.*num_stages=3, num_warps=4"
    return {
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
        "test_configs.autotune_choice_desc_regex": only,
    }


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
    "template": _function(
        lambda x, w: torch.relu(x @ w), (64, 128), (128, 32), dtype=torch.bfloat16, **_template(32)
    ),
    "template_batched": _function(
        lambda x, w: torch.bmm(x, w).sin(),
        (4, 64, 128),
        (4, 128, 64),
        dtype=torch.bfloat16,
        **_template(64),
    ),
    "template_dynamic": _function(
        lambda x, w: torch.relu(x @ w),
        (48, 64),
        (64, 64),
        dynamic=({0: _ANY}, {}),
        dtype=torch.bfloat16,
        **_template(64),
    ),
    "template_conv": Case(
        _conv,
        lambda: (t(2, 3, 16, 16),),
        config={"max_autotune": True, "max_autotune_conv_backends": "TRITON"},
    ),
    "flex_attention": _function(_flex, *3 * [(1, 2, 128, 64)], dtype=torch.bfloat16),
    "combo": _function(
        lambda x, w: (x.sin(), w.cos(), x[:7] + 1, w.amax(-1)),
        (64, 64),
        (64, 32),
        combo_kernels=True,
    ),
    "combo_dynamic": _function(
        lambda x, w: (x.sin(), w.cos(), x.amin(-1), w.amax(-1)),
        (48, 64),
        (48, 32),
        dynamic=({0: _ANY}, {0: _ANY}),
        combo_kernels=True,
    ),
    "foreach": _function(lambda x, y: torch._foreach_add([x, y], [y, x]), (64, 64), (64, 64)),
    # One kernel of 180 tensors.
    "foreach_many": Case(
        lambda: Function(lambda *xs: torch._foreach_add(xs[:60], xs[60:])),
        lambda: tuple(t(8, 8) for _ in range(120)),
    ),
    "blocks_that_wait": _function(
        lambda x: torch.softmax(x, -1),
        (4, 1 << 16),
        **{"triton.force_cooperative_reductions": True},
    ),
    # Rows and columns in one kernel, from five million elements on.
    "parts": _function(
        lambda x, y: ((x * y).sum(-1), (x * y).sum(0), (x + y).sum(0)),
        (8192, 768),
        (8192, 768),
    ),
    "parts_narrow": _function(
        lambda x, y: ((x * y).sum(-1), (x * y).sum(0), y.prod(0)),
        (8192, 768),
        (8192, 768),
        dtype=torch.bfloat16,
    ),
    "parts_dynamic": _function(
        lambda x, y: ((x * y).sum(-1), (x * y).sum(0)),
        (8192, 768),
        (8192, 768),
        dynamic=({0: _ANY}, {0: _ANY}),
    ),
    "random": _function(_seeded, (64, 64)),
    "mixed": Case(
        lambda: Function(lambda x, y: ((x + 1).cpu() + y, x * y.cuda())),
        lambda: (t(8, 16), t(8, 16, device="cpu")),
    ),
    "not_blocking": Case(
        lambda: Function(lambda x, y: (x * y.cuda(non_blocking=True)).cpu() + y),
        lambda: (t(8, 16), t(8, 16, device="cpu")),
    ),
    "odd_address": Case(
        lambda: Function(lambda x: x * 2 + 1), lambda: (t(64 * 64 + 1)[1:].view(64, 64),)
    ),
}

if importlib.util.find_spec("triton"):
    from tests.gpu.user_kernels import USERS

    CASES |= {name: _function(function, (64, 64), (64, 64)) for name, function in USERS.items()}
    CASES["users_kernel_dynamic"] = _function(
        USERS["users_kernel"], (48, 64), (48, 64), dynamic=({0: _ANY}, {0: _ANY})
    )
    CASES["users_kernel_tuned_dynamic"] = _function(
        USERS["users_kernel_tuned"], (48, 64), (48, 64), dynamic=({0: _ANY}, {0: _ANY})
    )
