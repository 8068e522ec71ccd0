"""Two ranks that do not do the same, under ``torch.compile`` with ``verify_ranks``.

    python tests/distributed/faults.py FOLDER CASE ...

Each rank prints what it heard of each case: its number, the case, how it ended, and a line of it.
The last case may end a rank.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

from tests.distributed.ranks import join
from wrapper_ir.frontends.inductor import statistics
from wrapper_ir.verify.ranks import RanksDisagreeError


def total(x: Tensor) -> Tensor:
    return collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def most(x: Tensor) -> Tensor:
    return collectives.all_reduce(x * 2, "max", dist.group.WORLD) + 1


def gathered(x: Tensor) -> Tensor:
    """Pytorch 174844: with NCCL the gather may return, and the sum behind it hangs."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return collectives.all_reduce(torch.stack(parts).sum(), "sum", dist.group.WORLD)


def called(case: str, rank: int, emitter: str, size: int) -> Any:
    """Do what a case says, as one of the ranks; no two cases have programs that fit."""
    torch._dynamo.reset()
    function = most if case == "version" and rank else total
    size += 100 if case == "shape" and rank else 0
    x = torch.ones(size)
    if case == "gather":
        function, x = gathered, torch.ones(()) if rank else torch.ones(3, 4)
    patience = 2 if case == "dies" else 60
    if case == "late" and rank:
        time.sleep(1)
    if case == "dies" and rank:
        os._exit(0)
    options = {"emitter": emitter, "verify_ranks": "error", "verify_ranks_seconds": patience}
    return torch.compile(function, backend="wrapper_ir", options=options)(x).sum().item()


def work(rank: int, folder: Path, cases: list[str]) -> None:
    """Go through cases."""
    join(rank, folder, torch.device("cpu"))
    for size, each in enumerate(cases, 4):
        case, _, emitter = each.partition(":")
        statistics.reset()
        try:
            heard = f"{called(case, rank, emitter or 'python', size)} {statistics.programs}"
        except RanksDisagreeError as error:
            problem = error.report.problems[0]
            known = any("faults.py:" in where.source for where in problem.where)
            known = known or "faults.py:" in problem.message
            heard = f"{problem.kind} {known}" if known else f"{problem.kind}: {str(error)[:999]!r}"
        os.write(1, f"{rank} {each} {heard}\n".encode())  # in one piece: two processes write


if __name__ == "__main__":
    CHILD = os.fork()
    torch.set_num_threads(1)
    work(0 if CHILD else 1, Path(sys.argv[1]), sys.argv[2:])
    if CHILD:
        os.waitpid(CHILD, 0)
    os._exit(0)
