"""Ranks that die, each in a collective that the other one waits in, and all started again.

    torchrun --nproc-per-node 2 --max-restarts 3 tests/distributed/restarts.py FOLDER

Each start goes through the emitter in which a rank has died before, and dies in the next one. Each
rank writes a file for each start: how each emitter ended, and how many programs it made. All starts
share the caches.
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

from tests.distributed.runs import EMITTERS, PATIENCE
from wrapper_ir.frontends.inductor import statistics


def total(x: Tensor) -> Tensor:
    return collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def called(emitter: str, rank: int, *, is_last: bool) -> str:
    """Call twice, or once before this rank dies; say what came of it."""
    torch._dynamo.reset()
    statistics.reset()
    options = {"emitter": emitter, "build": "wait", "verify_ranks": "error"}
    run = torch.compile(total, backend="wrapper_ir", options=options)
    found = run(torch.ones(3) * (rank + 1))
    if is_last and rank == 1:
        return f"died {statistics.programs}"
    try:
        found += run(torch.ones(3))
    except RuntimeError as error:  # of the collective, as the other rank dies
        return f"heard {statistics.programs} {error}"
    return f"{found.tolist()} {statistics.programs}"


def work(folder: Path) -> None:
    """Be a rank, in one start."""
    rank, start = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # Torchrun ends whoever is left, and that one is to say first what it hears.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # A store for each start: in torchrun's, gloo would find the addresses of the first one's ranks.
    store = dist.FileStore(str(folder / f"store{start}"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=PATIENCE)
    for number, emitter in list(enumerate(EMITTERS))[max(start - 1, 0) : start + 1]:
        said = called(emitter, rank, is_last=number == start)
        with (folder / f"start{start}.rank{rank}").open("a", encoding="utf-8") as file:
            print(emitter, said.partition("\n")[0], file=file)
        if said.startswith("died"):
            os.kill(os.getpid(), signal.SIGKILL)
        if said.startswith("heard"):
            sys.exit("the other rank is gone")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    work(Path(sys.argv[1]))
