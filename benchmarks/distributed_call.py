"""Time training steps of a model with tensor parallelism, ours against stock.

    python -m benchmarks.distributed_call                # 2 and 8 blocks
    python -m benchmarks.distributed_call --blocks 16 --json

Parameters are distributed tensors of two ranks, of which this process is one: the process group is
fake, and collectives do nothing. So what is timed is what a step costs the processor of a rank,
with kernels of no size. Ways take turns in one process and trade their frames
(``benchmarks/frames.py``), and stock is compared with itself as well.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchmarks.common import OURS, STOCK, apart, machine, show
from benchmarks.frames import Frames

if TYPE_CHECKING:
    from collections.abc import Callable

_CPP: dict[str, Any] = {"emitter": "cpp", "build": "wait"}

#: How each way compiles.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "stock": (STOCK, {}),
    "ours, C++": (OURS, _CPP),  # which compiles the module that calls of Python use as well
    "ours": (OURS, {}),
    "stock again": (STOCK, {}),
}

_ROUNDS, _STEPS = 40, 15


class Block(nn.Module):
    """A perceptron with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[rows, 16]``."""
        found: Tensor = x + self.down(self.up(x).relu())
        return found


def split(blocks: int) -> nn.Module:
    """Return a model of which this rank has a half."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(blocks)))
    plan = {f"{n}.up": ColwiseParallel() for n in range(blocks)}
    halves = plan | {f"{n}.down": RowwiseParallel() for n in range(blocks)}
    return parallelize_module(model, init_device_mesh("cpu", (2,)), halves)


def step(call: Callable[[], Any], model: nn.Module) -> tuple[float, float]:
    """Return the microseconds of a call, and of the backward pass."""
    model.zero_grad()
    start = time.thread_time()
    y = call()
    called = time.thread_time()
    gradient = torch.ones_like(y)
    begin = time.thread_time()
    y.backward(gradient)
    return (called - start) * 1e6, (time.thread_time() - begin) * 1e6


def measure(blocks: int) -> dict[str, list[tuple[float, float]]]:
    """Return the medians of each round, by way."""
    torch._dynamo.reset()
    x, model = torch.randn(4, 16), split(blocks)
    frames, generator = Frames(), random.Random(0)
    for way, (backend, options) in WAYS.items():
        function = apart(lambda x: model(x))
        compiled = torch.compile(function, backend=backend, options=options)
        for _ in range(5):
            step(partial(compiled, x), model)
        frames.add(way, function, compiled, lambda compiled: partial(compiled, x))
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    gc.collect()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            for way, call in frames.drawn(generator).items():
                both = zip(*(step(call, model) for _ in range(_STEPS)), strict=True)
                forward, backward = map(statistics.median, both)
                found[way].append((forward, backward))
    finally:
        gc.enable()
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", nargs="+", type=int, default=[2, 8])
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    found = {blocks: measure(blocks) for blocks in given.blocks}
    dist.destroy_process_group()
    rows = []
    for blocks, times in found.items():
        for way, each in times.items():
            row = [f"{blocks} blocks, {way}"]
            for part in range(2):
                ratios = (a[part] / b[part] for a, b in zip(each, times["stock"], strict=True))
                row += [f"{statistics.median(one[part] for one in each):.0f}"]
                row += [f"{statistics.median(ratios):.2f}"]
            rows.append(row)
    columns = ("us a step", "forward", "of stock's", "backward", "of stock's")
    record = {"machine": machine(), "us": {str(n): each for n, each in found.items()}}
    show("Training with distributed parameters", columns, rows, record, as_json=given.json)


if __name__ == "__main__":
    main()
