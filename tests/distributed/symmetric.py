"""What ranks do with memory that peers address, on GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

if TYPE_CHECKING:
    from tests.distributed.ranks import Compile


def sample(rows: int, columns: int = 64) -> Tensor:
    """Numbers that differ from rank to rank."""
    numbers = torch.linspace(-1, 1, rows * columns, device="cuda")
    return (numbers * (dist.get_rank() + 1)).sin().view(rows, columns)


def weight() -> Tensor:
    """The same on all ranks."""
    return torch.linspace(-1, 1, 64 * 32, device="cuda").cos().view(64, 32)


def reduced(compiled: Compile) -> Any:
    """Two buffers, two sizes, and calls that find the memory of earlier ones."""
    w = weight()

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        reduce = torch.ops.symm_mem.one_shot_all_reduce
        y = reduce((x @ w).relu(), "sum", "0")
        return y, reduce(torch.cat([y, y + x.shape[0]]).sin(), "sum", "0") * 2

    def plain(x: Tensor) -> tuple[Tensor, Tensor]:
        y = collectives.all_reduce((x @ w).relu(), "sum", "0")
        z = torch.cat([y, y + x.shape[0]]).sin()
        return y, collectives.all_reduce(z, "sum", "0") * 2

    run = compiled(both, dynamic=False)
    run = plain if run is both else run  # eager has no such memory
    return [run(sample(rows) + n) for n, rows in enumerate((8, 8, 4, 8, 4, 4))]


def chosen(compiled: Compile) -> Any:
    """Inductor takes such an op where an ordinary one is small."""
    w = weight()

    def forward(x: Tensor) -> Tensor:
        return collectives.all_reduce((x @ w).relu(), "sum", "0") + 1

    run = compiled(forward, dynamic=False)
    with _inductor_config().patch({"_collective.auto_select": True}):
        return [run(sample(8) + n) for n in range(4)]


def fused(compiled: Compile) -> Any:
    """Products that gather what they take and scatter what they give."""
    w = weight().bfloat16()

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        gathered = collectives.all_gather_tensor(x, 0, "0") @ w
        return gathered, collectives.reduce_scatter_tensor(x @ w, "sum", 0, "0")

    run = compiled(forward, dynamic=False)
    with _inductor_config().patch({"_micro_pipeline_tp": True}):
        return [run((sample(512) + n).bfloat16()) for n in range(3)]


def _inductor_config() -> Any:
    from torch._inductor import config

    return config


CASES: dict[str, tuple[Any, str]] = {
    "reduced in symmetric memory": (reduced, "symm_mem::one_shot_all_reduce_out"),
    "chosen in symmetric memory": (chosen, "symm_mem::one_shot_all_reduce_out"),
    "fused in symmetric memory": (fused, "symm_mem::fused_all_gather_matmul"),
}
