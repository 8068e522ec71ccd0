"""Two ranks that save what the calls of a compiled step read and write.

    python tests/distributed/saving.py FOLDER

The runs are ``FOLDER/good``, ``FOLDER/again`` and, where rank 1 has another weight, ``FOLDER/bad``;
``FOLDER/cpp`` and ``FOLDER/fx`` are of other emitters.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

from tests.distributed.ranks import join
from wrapper_ir.debugging import debug_session

OPTIONS = {"debug": "save", "build": "wait"}
#: Names of runs, by their emitter.
RUNS = {"python": ("good", "again", "bad"), "cpp": ("cpp",), "fx": ("fx",)}


def step(x: Tensor, weight: Tensor) -> Tensor:
    """Two collectives, the second of which takes what the first has made."""
    first = collectives.all_reduce(x @ x.t(), "sum", dist.group.WORLD)
    return collectives.all_reduce(first @ weight, "sum", dist.group.WORLD) + 1


def work(rank: int, folder: Path) -> None:
    """Run the step several times, as one of the ranks."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    join(rank, folder, torch.device("cpu"))
    for emitter, names in RUNS.items():
        torch.compiler.reset()
        run = torch.compile(step, backend="wrapper_ir", options=OPTIONS | {"emitter": emitter})
        for name in names:
            weight = torch.ones(3, 3)
            weight[2, 2] += rank and name == "bad"
            with debug_session(folder / name):
                run(torch.arange(9.0).reshape(3, 3) + rank, weight)
    dist.destroy_process_group()


if __name__ == "__main__":
    CHILD = os.fork()
    torch.set_num_threads(1)
    work(0 if CHILD else 1, Path(sys.argv[1]))
    os._exit(os.waitstatus_to_exitcode(os.waitpid(CHILD, 0)[1]) if CHILD else 0)
