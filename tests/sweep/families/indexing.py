"""Reading and writing at places that data decides."""

from __future__ import annotations

import torch

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import rest, side, width

HOW = How(varies="many")
SIZES = {"columns": width(1, 1024), "rows": side(2, 1 << 17), "many": rest()}
FORWARD = How(varies="many", trains=False)


@family(HOW, **SIZES)
def messages(k: Kit, columns: int, rows: int, many: int) -> Made:
    def run(x, source, target):
        return torch.zeros_like(x).index_add(0, target, x[source].relu()), x[source].sigmoid().sum(
            0
        )

    return Made(run, lambda: (k.r(rows, columns), k.i(rows, many), k.i(rows, many)))


@family(FORWARD, **SIZES)
def sums_of_integers_at_places(k: Kit, columns: int, rows: int, many: int) -> Made:
    def run(x, at):
        made = torch.zeros(rows, columns, dtype=x.dtype, device=x.device)
        made = made.scatter_add(0, at[:, None].expand_as(x), x)
        return made.scatter_reduce(0, at[:, None].expand_as(x), x, "amax"), made.sum(0)

    return Made(run, lambda: (k.i(99, many, columns), k.i(rows, many)))


@family(HOW, **SIZES)
def gathered(k: Kit, columns: int, rows: int, many: int) -> Made:
    def run(x, at):
        return x.gather(0, at) * 2, torch.take_along_dim(x, at, 0).cos()

    return Made(run, lambda: (k.r(rows, columns), k.i(rows, many, columns)))


@family(HOW, **SIZES)
def selected(k: Kit, columns: int, rows: int, many: int) -> Made:
    def run(x, at):
        return x.index_select(0, at) + 1, x[at, :1].relu(), x[-at.clamp(1)]

    return Made(run, lambda: (k.r(rows, columns), k.i(rows, many)))


@family(FORWARD, columns=width(1, 1024), many=rest(2))
def put(k: Kit, columns: int, many: int) -> Made:
    def run(x, y, order):
        x = x.clone()
        x[order] = y * 2
        return x, x.index_fill(0, order[:1], 3.0), x.index_put((order[:2],), y[:2], accumulate=True)

    def inputs():
        order = torch.argsort(k.c(many, dtype=torch.float32))
        return k.c(many, columns), k.c(many, columns), order

    return Made(run, inputs)


@family(HOW, columns=width(1, 8192), many=rest())
def masked(k: Kit, columns: int, many: int) -> Made:
    def run(x, y, keep):
        return torch.where(keep, x, y), x.masked_fill(keep, -1.0).sum(-1), (x * keep).tril()

    return Made(run, lambda: (k.r(many, columns), k.r(many, columns), k.b(many, columns)))


@family(FORWARD, columns=width(1, 1024), many=rest())
def of_data(k: Kit, columns: int, many: int) -> Made:
    def run(x, keep):
        at = keep.nonzero().flatten()
        return x[at] * 2, x[keep].sum(0), at + 1

    return Made(run, lambda: (k.c(many, columns), k.b(many)))


@family(FORWARD, columns=width(1, 1024), many=rest(4))
def put_where_data_say(k: Kit, columns: int, many: int) -> Made:
    def run(x, y, keep):
        x = x.clone()
        x[keep] = y[keep] * 2
        return x.masked_scatter(keep[:, None], y), x.index_put((keep,), y[0], accumulate=True)

    return Made(run, lambda: (k.c(many, columns), k.c(many, columns), k.b(many)))


@family(FORWARD, columns=width(1, 1024), many=rest(4))
def repeated(k: Kit, columns: int, many: int) -> Made:
    def run(x, counts):
        return torch.repeat_interleave(x, counts, dim=0) + 1, x.roll(3, 0).flip(-1)

    return Made(run, lambda: (k.c(many, columns), k.i(4, many)))


@family(FORWARD, columns=width(1, 4096), many=rest(4))
def cache_written_in_place(k: Kit, columns: int, many: int) -> Made:
    def run(cache, x, at):
        cache[at] = x
        cache[:, :1].add_(1)
        return cache.sum(-1)

    def inputs():
        at = torch.argsort(k.c(many, dtype=torch.float32))[:3]
        return k.c(many, columns), k.c(3, columns), at

    return Made(run, inputs)
