"""What is about more than one kernel: branches, loops, copies, sizes that data decides, places."""

from __future__ import annotations

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import rest, width

FORWARD = How(trains=False)
TRAINS = How()
SIZES = {"columns": width(1, 8192), "rows": rest(2)}


@family(FORWARD, **SIZES)
def branches(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        return torch.cond(
            x.sum() > 0, lambda a, b: (a * 2 + b).relu(), lambda a, b: a.sin() - b, (x, y)
        ).sum(-1)

    return Made(run, lambda: (k.c(rows, columns), k.c(rows, columns)))


@family(FORWARD, **SIZES)
def loops(k: Kit, rows: int, columns: int) -> Made:
    from torch._higher_order_ops import while_loop

    def run(n, x):
        _, made = while_loop(
            lambda n, x: n < 3, lambda n, x: (n + 1, (x * 1.5).tanh() + 0.1), (n, x)
        )
        return made.amax(-1)

    return Made(run, lambda: (torch.zeros((), dtype=torch.int64), k.c(rows, columns)))


@family(TRAINS, **SIZES)
def regions_that_repeat(k: Kit, rows: int, columns: int) -> Made:
    @torch.compiler.nested_compile_region
    def layer(x, w):
        return functional.gelu(functional.rms_norm(x, x.shape[-1:], w)) + x

    def run(x, v, w):
        return layer(layer(x, v), w)

    return Made(run, lambda: (k.r(rows, columns), k.r(columns), k.r(columns)))


@family(How(kind="random"), columns=width(8, 4096), rows=rest(2))
def checkpoints(k: Kit, rows: int, columns: int) -> Made:
    def layer(x, w):
        return functional.dropout(functional.layer_norm(x, x.shape[-1:], w).exp(), 0.2) + x

    def run(x, v, w):
        x = checkpoint(layer, x, v, use_reentrant=False)
        return checkpoint(layer, x, w, use_reentrant=False)

    return Made(run, lambda: (k.r(rows, columns), k.r(columns), k.r(columns)))


@family(How(trains=False, devices=("cuda",), more=("partitions",) * 4), **SIZES)
def to_the_host_and_back(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        few = (x[:, :1] * 2).cpu()
        return x + (few.sin() + 1).to(x.device), few.sum()

    return Made(run, lambda: (k.c(rows, columns),))


@family(How(trains=False, more=("partitions",) * 4), **SIZES)
def sizes_of_data(k: Kit, rows: int, columns: int) -> Made:
    def run(x, n):
        count = n.item()
        torch._check(count >= 1)
        torch._check(count <= x.shape[0])
        return x[:count].sum(0), x.narrow(0, 0, count) * 2, torch.zeros(count, device=x.device) + 1

    return Made(run, lambda: (k.c(rows, columns), torch.tensor(rows // 2)))


@family(FORWARD, **SIZES)
def places_of_data(k: Kit, rows: int, columns: int) -> Made:
    def run(x, n):
        at = n.item()
        torch._check(at >= 0)
        torch._check(at < x.shape[0])
        return x[at] * 2, x.select(0, at).sum()

    return Made(run, lambda: (k.c(rows, columns), torch.tensor(rows // 2)))


@family(FORWARD, **SIZES)
def slices_of_data(k: Kit, rows: int, columns: int) -> Made:
    def run(x, n):
        at = n.item()
        return x[at].sin(), x[at:].sum(0), x[:at] * 2

    return Made(run, lambda: (k.c(rows, columns), torch.tensor(-2)))


@family(FORWARD, numbers=rest(64))
def odd_addresses(k: Kit, numbers: int) -> Made:
    def run(x, y):
        return x * 2 + y, (x + 1).sum()

    return Made(run, lambda: (k.c(numbers + 1)[1:], k.c(numbers + 3)[3:]))


@family(FORWARD, **SIZES)
def calls_of_ones_own(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        return torch.ops.sweep.doubled(x.relu()).sum(-1), torch.ops.sweep.doubled(x)[:1]

    return Made(run, lambda: (k.c(rows, columns),))


@torch.library.custom_op("sweep::doubled", mutates_args=())
def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@_doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@family(FORWARD, **SIZES)
def asserted(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        torch._assert_async((x.abs() < 1e6).all())
        return x.cumsum(0), torch.fft.rfft(x.float(), dim=-1).abs()

    return Made(run, lambda: (k.c(rows, columns),))


@family(TRAINS, **SIZES)
def mutated_views(k: Kit, rows: int, columns: int) -> Made:
    def run(x, kept):
        y = x * 2
        kept.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        y[0] = 0
        y.view(-1)[::2].mul_(3)
        return y, kept + 1

    return Made(run, lambda: (k.r(rows, columns), k.c(columns)))


@family(How(trains=False, devices=("cuda",)), **SIZES)
def streams(k: Kit, rows: int, columns: int) -> Made:
    side = torch.cuda.Stream()

    def run(x, y):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            a = (x * 2).sum(-1)
        b = y.sin()
        torch.cuda.current_stream().wait_stream(side)
        return a + b.sum(-1)

    return Made(run, lambda: (k.c(rows, columns), k.c(rows, columns)))
