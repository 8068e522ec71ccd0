"""Reductions, scans and sorts, of rows, of columns and of everything."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import among, rest, width

HOW = How(varies="rows", kind="reduction")
SIZES = {"columns": width(), "rows": rest()}
FORWARD = How(varies="rows", kind="reduction", trains=False)


@family(HOW, **SIZES)
def of_everything(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        return x.sum(), x.float().norm(), x.var(), x.abs().amax(), x.logsumexp((0, 1))

    return Made(run, lambda: (k.r(rows, columns),))


@family(HOW, **SIZES)
def of_rows(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        z = x * y
        return z.sum(-1), x.std(-1, correction=0), z.amax(-1), x.float().square().mean(-1)

    return Made(run, lambda: (k.r(rows, columns), k.r(rows, columns)))


@family(HOW, **SIZES)
def of_columns(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        return (x * y).sum(0), x.float().mean(0), (x + y).amin(0), x.var(0, correction=0)

    return Made(run, lambda: (k.r(rows, columns), k.r(rows, columns)))


@family(HOW, columns=width(1, 16384), rows=rest())
def of_rows_and_of_columns(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        z = x * y
        return z.sum(-1), z.sum(0), (x + y).sum(0, keepdim=True), z

    return Made(run, lambda: (k.r(rows, columns), k.r(rows, columns)))


@family(HOW, columns=width(1, 4096), rows=rest())
def gradient_of_a_bias(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y, w):
        z = x * torch.sigmoid(y * w)
        return torch.cat([z.sum(0), (z * x).sum(0)]), z.sum(-1), z.float().sum(0).to(x.dtype)

    return Made(run, lambda: (k.c(rows, columns), k.c(rows, columns), k.r(columns)))


@family(How(kind="reduction"), last=width(1, 513), middle=width(), first=rest())
def of_the_middle(k: Kit, last: int, middle: int, first: int) -> Made:
    def run(x):
        return x.sum(1), x.float().mean((0, 2)), x.amax((0, 1)), x.prod(1)

    return Made(run, lambda: (k.r(first, middle, last),))


@family(FORWARD, **SIZES)
def places(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        return x.argmax(-1), x.argmin(0), x.max(-1), x.argmax()

    return Made(run, lambda: (k.c(rows, columns),))


@family(FORWARD, **SIZES)
def of_integers(k: Kit, rows: int, columns: int) -> Made:
    def run(x, keep):
        return x.sum(-1), x.sum(), keep.any(0), keep.all(-1), (x * keep).amax(), x.count_nonzero(0)

    return Made(run, lambda: (k.i(1000, rows, columns), k.b(rows, columns)))


@family(HOW, **SIZES)
def running_sums(k: Kit, rows: int, columns: int) -> Made:
    return Made(lambda x: x.float().cumsum(-1) * 2, lambda: (k.r(rows, columns),))


@family(FORWARD, **SIZES)
def running_sums_of_integers(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        return x.cumsum(-1), x.cumsum(0), x.cummax(-1).values

    return Made(run, lambda: (k.i(9, rows, columns),))


@family(FORWARD, columns=width(1, 8193), rows=rest())
def sorted_rows(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        values, order = x.sort(dim=-1, stable=True)
        return values * 2, order, x.topk(min(4, columns), -1).values, x.median(-1).values

    return Made(run, lambda: (k.c(rows, columns),))


@family(HOW, steps=among(2, 5), columns=width(1, 4096), rows=rest())
def one_after_another(k: Kit, steps: int, columns: int, rows: int) -> Made:
    def run(x):
        for _ in range(steps):
            x = x - x.amax(-1, keepdim=True)
            x = x / (x.exp().sum(0, keepdim=True) + 1)
        return x

    return Made(run, lambda: (k.r(rows, columns),))


@family(replace(FORWARD, varies="numbers"), bins=among(10, 256, 1000), numbers=rest())
def counted(k: Kit, bins: int, numbers: int) -> Made:
    def run(x, i):
        return (
            torch.bincount(i, minlength=bins),
            (x > 0).sum(),
            torch.searchsorted(x[:64].sort().values, x),
        )

    return Made(run, lambda: (k.c(numbers), k.i(bins, numbers)))
