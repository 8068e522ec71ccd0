"""Export a model that two ranks share, a package for each, and print its output for the input.

The first layer is split by its rows and the second by its columns, so that each rank holds half of
both and one all_reduce adds up what they make of an input. One process makes both packages.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.testing._internal.distributed.fake_pg import FakeStore

import wrapper_ir as wir

RANKS = 2


class Split(nn.Module):
    """The part of two layers that a rank holds."""

    def __init__(self, up: nn.Linear, down: nn.Linear, rank: int) -> None:
        super().__init__()
        self.up = nn.Parameter(up.weight.detach().chunk(RANKS)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().chunk(RANKS, dim=1)[rank].clone())

    def forward(self, x: Tensor) -> Tensor:
        """Compute a part of the output, and add up the parts of all ranks."""
        part = (x @ self.up.t()).relu() @ self.down.t()
        return collectives.all_reduce(part, "sum", dist.group.WORLD)


def main(path: str = "split") -> None:
    """Capture each rank's part, prove that they fit together, export them and run eagerly."""
    torch.manual_seed(0)
    up, down = nn.Linear(8, 32, bias=False), nn.Linear(32, 4, bias=False)
    x = (torch.arange(16, dtype=torch.float32) / 16).reshape(2, 8)
    programs = []
    for rank in range(RANKS):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=RANKS)
        with torch.no_grad():
            programs.append(wir.capture(Split(up, down, rank).eval(), (x,)))
        dist.destroy_process_group()
    wir.verify_ranks(programs).check()
    for rank, program in enumerate(programs):
        wir.export(program, f"{path}.rank{rank}.pt2")
    with torch.no_grad():
        print(down(up(x).relu()))


if __name__ == "__main__":
    main(*sys.argv[1:])
