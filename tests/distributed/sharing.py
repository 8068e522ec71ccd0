"""What one rank compiles for the other: cases of ``ranks.py`` during which nothing is recorded.

While programs are recorded, each rank compiles for itself. Here they look into an empty cache, and
the case says how many programs all ranks make together.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.distributed.parallelisms import Block, gradients, line, local, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Compile = Callable[..., Callable[..., Any]]


@contextmanager
def on_one_rank(emitter: str) -> Iterator[None]:
    """Compile for all ranks in the block, with a cache that they share and that is empty before."""
    found = {"TORCHINDUCTOR_CACHE_DIR": str(Path(f"cache-{emitter}").resolve())}
    with mock.patch.dict(os.environ, found), torch.compiler.config.patch(compile_on_one_rank=True):  # type: ignore[attr-defined]
        yield


def tensor_parallel(compiled: Compile) -> Any:
    """Forward and backward, twice."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    module, found = parallelize_module(Block(), line(), plan), []
    run = compiled(module)
    for _ in range(2):
        loss = run(numbers(4, 6)).square().mean()
        loss.backward()
        found += [loss, *(local(each).clone() for each in gradients(module))]
    return found


def convolution(compiled: Compile) -> Any:
    """The forward of a convolution of which torch can compile no backward.

    It asks for its rank, since neighbours exchange their edges.
    """
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    def spread(x: Tensor, *placements: Any) -> Any:
        return distribute_tensor(x, line(), placements)

    torch.manual_seed(0)
    x = spread(torch.randn(2, 3, 6, 8), Shard(3)).detach().requires_grad_()
    weight = spread(torch.randn(4, 3, 3, 3), Replicate()).detach().requires_grad_()

    def each(x: Any, weight: Any) -> Any:
        return nn.functional.conv2d(x, weight, padding=1).relu()

    run = compiled(each)
    return [run(x, weight).to_local(), run(x, weight).to_local()]


#: As ``CASES`` of ``ranks.py``, with the number of programs that all ranks make together in place
#: of a collective.
CASES: dict[str, tuple[Callable[..., Any], int]] = {
    "shared tensor parallel": (tensor_parallel, 2),
    "shared convolution": (convolution, 2),
}


def made_by_all(programs: int) -> int:
    """Return how many programs all ranks have made."""
    found = torch.tensor(programs)
    dist.all_reduce(found)
    return int(found)
