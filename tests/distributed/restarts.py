"""A rank that dies while the other one is in a collective, and both started again by torchrun.

    torchrun --nproc-per-node 2 --max-restarts 1 tests/distributed/restarts.py FOLDER

Each rank writes a file for each start: how it ended, and how many programs it made. ``FOLDER`` is
also the place of caches, which both starts share.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

from tests.distributed.ranks import PATIENCE
from wrapper_ir.frontends.inductor import statistics


def total(x: Tensor) -> Tensor:
    return collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def work(folder: Path) -> None:
    """Call twice; the second call of the first start is one rank's last."""
    rank, start = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # A store for each start: in torchrun's, gloo would find the addresses of the first one's ranks.
    store = dist.FileStore(str(folder / f"store{start}"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=PATIENCE)
    options = {"emitter": "cpp", "build": "wait", "verify_ranks": "error"}
    run = torch.compile(total, backend="wrapper_ir", options=options)
    said = folder / f"start{start}.rank{rank}"
    try:
        found = run(torch.ones(3) * (rank + 1))
        if start == 0 and rank == 1:
            said.write_text(f"died {statistics.programs}", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        found += run(torch.ones(3))
    except Exception as error:  # what a rank hears of the other one's death
        said.write_text(f"heard {type(error).__name__} {error}", encoding="utf-8")
        raise
    said.write_text(f"{found.tolist()} {statistics.programs}", encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    work(Path(sys.argv[1]))
