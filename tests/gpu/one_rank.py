"""A rank of two on GPUs: trains one step in each way, and says who compiled and what is wrong.

    python tests/gpu/one_rank.py RANK FOLDER

One process compiles (``compile_on_one_rank``), the other one loads what it has stored.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh

import wrapper_ir as wir
from tests.distributed.ranks import join
from wrapper_ir.frontends.inductor import statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed.device_mesh import DeviceMesh

#: Seconds until a rank says where it stands, and ends.
LIMIT = 300

#: By way: the options, and how often a step is taken.
WAYS = {
    "python": ({"emitter": "python"}, 2),
    "cpp": ({"emitter": "cpp", "build": "wait"}, 2),
    "fx": ({"emitter": "fx"}, 2),
    "python captured": ({"emitter": "python", "cuda_graph": True}, 4),
    "cpp captured": ({"emitter": "cpp", "build": "wait", "cuda_graph": True}, 4),
}


class Block(nn.Module):
    """Two products with a sum over the ranks behind them, whose gradients are two more."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(256, 512), nn.Linear(512, 256)
        self.mesh = mesh

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(nn.functional.gelu(self.up(x)))
        y = collectives.all_reduce(y, "sum", (self.mesh, 0))
        return torch.softmax(y, -1) * torch.arange(256, device=x.device)


def step(run: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the result and the gradients of one step."""
    model.zero_grad()
    x.grad = None
    result = run(x)
    result.sin().sum().backward()
    found = (result, x.grad, *(each.grad for each in model.parameters()))
    return [each.detach().clone() for each in found if each is not None]


def compared(model: nn.Module, x: Tensor, wanted: list[Tensor], way: str) -> tuple[bool, int]:
    """Return whether a way's last step is right, and how many programs this rank made."""
    options, count = WAYS[way]
    torch._dynamo.reset()
    statistics.reset()
    run = torch.compile(model, backend="wrapper_ir", options=options)
    found: list[Tensor] = []
    for _ in range(count):
        found = step(run, model, x)
    pairs = zip(found, wanted, strict=True)
    is_right = all(torch.allclose(*pair, rtol=2e-3, atol=2e-3) for pair in pairs)
    return is_right, statistics.programs


def work(rank: int, folder: Path) -> None:
    """Train in each way."""
    here = torch.device("cuda", rank)
    join(rank, folder, here)
    torch.manual_seed(0)
    model = Block(init_device_mesh("cuda", (2,), mesh_dim_names=("tp",))).to(here)
    x = (torch.randn(64, 256, device=here) * (1 + rank)).requires_grad_()
    wanted = step(model, model, x)
    found = {}
    with torch.compiler.config.patch(compile_on_one_rank=True):  # type: ignore[attr-defined]
        for way in WAYS:
            found[way] = compared(model, x, wanted, way)
            print(rank, way, *found[way], flush=True)
    (folder / f"rank{rank}").write_text(json.dumps(found), encoding="utf-8")
    wir.release_kept_memory()  # NCCL waits for the end of graphs that hold its work
    dist.destroy_process_group()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    work(int(sys.argv[1]), Path(sys.argv[2]))
