"""Chains of element-wise ops, with broadcasting, views, other types and random numbers."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.sweep.kit import FLOATS, How, Kit, Made, family
from tests.sweep.sizes import among, rest, width

ROWS = How(varies="rows")
FORWARD = How(varies="rows", trains=False)
NUMBERS = How(varies="numbers")
RANDOM = How(varies="rows", kind="random")
SIZES = {"columns": width(), "rows": rest()}


@family(ROWS, **SIZES)
def chain(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y, row, column):
        z = functional.gelu(x * row + column) - y.tanh()
        return torch.where(z > 0, z.exp().clamp(max=9), z * y), (z * 3).sigmoid()

    return Made(run, lambda: (k.r(rows, columns), k.r(rows, columns), k.r(columns), k.r(rows, 1)))


@family(ROWS, last=among(1, 3, 64), middle=width(1, 8192), rows=rest())
def turned(k: Kit, last: int, middle: int, rows: int) -> Made:
    def run(x, y):
        z = x.permute(2, 0, 1).contiguous() * 2
        return z, (x.transpose(0, 1) + y).contiguous(), z.flatten() + 1

    return Made(run, lambda: (k.r(rows, middle, last), k.r(middle, rows, last)))


@family(ROWS, **SIZES)
def joined(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        made = torch.cat([x * 2, y.relu(), x[:, :1]], 1)
        first, *_ = made.split((columns + 1) // 2, 1)
        return made, first.sin(), torch.stack([x, y], -1).flatten(1), functional.pad(x, (1, 2))

    return Made(run, lambda: (k.r(rows, columns), k.r(rows, columns)))


@family(FORWARD, **SIZES)
def of_other_types(k: Kit, rows: int, columns: int) -> Made:
    def run(x, n, keep):
        y = x.double() * n
        return y.to(torch.float16), (n * 3) % 7 << 2, keep ^ (n > 5), x.to(torch.int32), n // 3

    return Made(run, lambda: (k.c(rows, columns), k.i(99, rows, columns), k.b(rows, columns)))


@family(FORWARD, **SIZES)
def in_place(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        x.mul_(2).add_(y)
        y[:, ::2].copy_(x[:, ::2].sin())
        return x.t() * 2

    return Made(run, lambda: (k.c(rows, columns), k.c(rows, columns)))


@family(ROWS, **SIZES)
def of_slices(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        return x[1:] - x[:-1], x[:, ::3].flip(0) * 2, x.unfold(0, min(2, rows), 1).mean(-1)

    return Made(run, lambda: (k.r(max(rows, 2), columns),))


@family(ROWS, **SIZES)
def long_polynomial(k: Kit, rows: int, columns: int) -> Made:
    def run(x, w):
        y = torch.zeros_like(x)
        for n in range(24):
            y = y * x.tanh() + w * n
        return y, y.abs().sqrt()

    return Made(run, lambda: (k.r(rows, columns), k.r(columns)))


@family(NUMBERS, numbers=rest())
def of_complex_numbers(k: Kit, numbers: int) -> Made:
    def run(x):
        z = torch.view_as_complex(x.float())
        return torch.view_as_real(z * z.conj() + z), z.abs()

    return Made(run, lambda: (k.r(numbers, 2),))


@family(RANDOM, **SIZES)
def dropout(k: Kit, rows: int, columns: int) -> Made:
    return Made(
        lambda x, y: functional.dropout(x, 0.1) * 2 + functional.dropout(y.relu(), 0.5),
        lambda: (k.r(rows, columns), k.r(rows, columns)),
    )


@family(
    How(varies="rows", kind="random", more=("cooperative", "no_split")),
    columns=width(8, 8192),
    rows=rest(),
)
def dropout_residual_norm(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y, w, b):
        z = functional.dropout(x + b, 0.1) + y
        return functional.layer_norm(z, z.shape[-1:], w)

    return Made(run, lambda: (k.r(rows, columns), k.r(rows, columns), k.r(columns), k.r(columns)))


@family(How(kind="random", trains=False), **SIZES)
def made_up(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        noise = torch.randn_like(x, dtype=torch.float32)
        rolled = torch.randint(0, 99, x.shape, device=x.device)
        return x + noise, rolled, torch.rand(columns, device=x.device), torch.bernoulli(x.sigmoid())

    return Made(run, lambda: (k.c(rows, columns),))


@family(How(kind="random", dtypes=FLOATS[::2]), **SIZES)
def masks_written_in_place(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        mask = torch.empty_like(x).bernoulli_(0.7)
        return x * mask / 0.7, functional.alpha_dropout(x, 0.2)

    return Made(run, lambda: (k.r(rows, columns),))


@family(NUMBERS, numbers=rest())
def of_nothing_and_of_one(k: Kit, numbers: int) -> Made:
    def run(x):
        return x[:0] * 2, x[:1].sum() + 1, x[:0].sum(), x.new_ones(()) * x[-1]

    return Made(run, lambda: (k.r(numbers),))
