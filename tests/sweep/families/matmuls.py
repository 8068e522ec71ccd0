"""Products of matrices, with what is fused before and after them."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.sweep.kit import FLOATS, How, Kit, Made, family
from tests.sweep.sizes import among, rest, side, width

HOW = How(kind="product", varies="rows")
SIZES = {"inner": side(1, 16384), "columns": side(1, 16384), "rows": side(1, 1 << 16)}
HALF = FLOATS[:1]


@family(HOW, **SIZES)
def linear_and_gelu(k: Kit, inner: int, columns: int, rows: int) -> Made:
    return Made(
        lambda x, w, b: functional.gelu(functional.linear(x, w, b)),
        lambda: (k.r(rows, inner), k.w(columns, inner), k.r(columns)),
    )


@family(HOW, **SIZES)
def linear_and_residual(k: Kit, inner: int, columns: int, rows: int) -> Made:
    def run(x, w, y):
        z = x @ w
        return (z.relu() + y) * 0.5, z.amax(-1)

    return Made(run, lambda: (k.r(rows, inner), k.w(inner, columns), k.r(rows, columns)))


@family(HOW, **SIZES)
def gated(k: Kit, inner: int, columns: int, rows: int) -> Made:
    def run(x, v, w):
        return functional.silu(x @ v) * (x @ w)

    return Made(run, lambda: (k.r(rows, inner), k.w(inner, columns), k.w(inner, columns)))


@family(HOW, **SIZES)
def bias_of_rows(k: Kit, inner: int, columns: int, rows: int) -> Made:
    return Made(
        lambda x, w, b: torch.addmm(b.expand(x.shape[0], b.shape[0]), x, w, beta=0.5),
        lambda: (k.r(rows, inner), k.w(inner, columns), k.r(columns)),
    )


@family(HOW, **SIZES)
def other_type_before(k: Kit, inner: int, columns: int, rows: int) -> Made:
    def run(x, w, scale):
        return (x.to(k.dtype) * 0.5) @ (w.to(k.dtype) * scale)

    def inputs():
        w = k.i(127, inner, columns, low=-127).to(torch.int8)
        return k.r(rows, inner, dtype=torch.float32), w, k.c(columns)

    return Made(run, inputs)


@family(
    How(kind="product", varies="count", weight=48),
    inner=side(1, 2049),
    columns=width(1, 2049),
    rows=width(1, 2049),
    count=rest(1, 4096),
)
def batched(k: Kit, inner: int, columns: int, rows: int, count: int) -> Made:
    def run(x, w, b):
        return torch.baddbmm(b, x, w).tanh(), torch.einsum("bij,bjk->bik", x * 2, w)

    return Made(
        run, lambda: (k.r(count, rows, inner), k.w(count, inner, columns), k.r(count, 1, columns))
    )


@family(How(kind="product"), columns=among(8, 16, 32, 64), rows=among(16, 32, 64), inner=rest(1024))
def long_and_thin(k: Kit, columns: int, rows: int, inner: int) -> Made:
    return Made(
        lambda x, w: (x @ w).relu() + 1,
        lambda: (k.r(rows, inner), k.c(inner, columns).div_(inner**0.5).requires_grad_(k.backward)),
    )


@family(How(kind="product", varies="rows"), inner=width(1, 16385), rows=rest())
def vector(k: Kit, inner: int, rows: int) -> Made:
    def run(x, v):
        return torch.mv(x, v) * 2, x @ v[:, None] + 1, torch.outer(v, v[:8])

    return Made(run, lambda: (k.r(rows, inner), k.w(inner)))


@family(HOW, inner=side(8, 8192), columns=side(8, 8192), rows=side(1, 1 << 16))
def low_rank(k: Kit, inner: int, columns: int, rows: int) -> Made:
    def run(x, w, a, b):
        return functional.linear(x, w) + functional.linear(functional.linear(x, a), b) * 2

    return Made(
        run, lambda: (k.c(rows, inner), k.c(columns, inner), k.w(16, inner), k.w(columns, 16))
    )


EXPERTS = How(kind="product", dtypes=HALF, weight=24)


@family(EXPERTS, width_=side(16, 2049), inner=side(16, 2049), tokens=side(8, 1 << 14))
def experts(k: Kit, width_: int, inner: int, tokens: int) -> Made:
    def run(x, gate, up, down):
        weights, chosen = (x @ gate).float().softmax(-1).topk(2, -1)
        y = functional.silu(torch.einsum("td,edf->tef", x, up))
        y = torch.einsum("tef,efd->ted", y, down)
        y = y.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        return (y * weights[..., None].to(x.dtype)).sum(1)

    def inputs():
        return k.r(tokens, width_), k.w(width_, 8), k.w(8, width_, inner), k.w(8, inner, width_)

    return Made(run, inputs)


GPU = How(kind="product", dtypes=HALF, devices=("cuda",))


@family(GPU, width_=among(64, 512, 2048), inner=among(64, 768, 4096), tokens=side(64, 1 << 16))
def groups(k: Kit, width_: int, inner: int, tokens: int) -> Made:
    def run(x, w, ends):
        return torch._grouped_mm(x, w, offs=ends).relu()

    def inputs():
        ends = torch.arange(1, 9, device=k.device, dtype=torch.int32) * (tokens // 8)
        ends[-1] = tokens
        return k.r(tokens, width_), k.w(8, width_, inner), ends

    return Made(run, inputs)


@family(
    How(kind="product", dtypes=HALF, devices=("cuda",), trains=False),
    inner=among(64, 512, 4096),
    columns=among(64, 768, 14336),
    rows=side(16, 1 << 16),
)
def eight_bits(k: Kit, inner: int, columns: int, rows: int) -> Made:
    narrow = torch.float8_e4m3fn

    def run(x, w):
        scale = x.abs().amax().float() / 448
        y = torch._scaled_mm(
            (x / scale).to(narrow), w.t(), scale, scale.new_ones(()), out_dtype=x.dtype
        )
        return functional.silu(y)

    return Made(run, lambda: (k.c(rows, inner), k.c(columns, inner).to(narrow)))


@family(HOW, inner=side(16, 4096), columns=side(16, 4096), rows=side(1, 1 << 16))
def two_layers(k: Kit, inner: int, columns: int, rows: int) -> Made:
    def run(x, a, b, w):
        y = functional.relu(functional.linear(x, w, a)).square()
        return functional.layer_norm(functional.linear(y, w.t(), b) + x, x.shape[-1:])

    return Made(run, lambda: (k.r(rows, inner), k.r(columns), k.r(inner), k.w(columns, inner)))
