"""Train the decoder on several ranks: FSDP2 over tensor parallelism, each block compiled.

    torchrun --standalone --nproc-per-node 4 examples/train_distributed.py               # 2 by 2
    torchrun --standalone --nproc-per-node 2 examples/train_distributed.py --tensor 2    # 1 by 2

Ranks form a mesh. Along its rows each layer is split (tensor parallelism), and its sums are
collectives in the compiled programs; along its columns parameters are split and gathered when they
are read (FSDP2), and each row has its own part of the batch. The losses are compared with those of
one process that trains the whole model with the whole batch.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - the usual name
from decoder import Decoder, make
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import wrapper_ir as wir

#: What a rank has of a block's layers: columns of the first ones, and rows of what reads them.
PLAN = {
    **{f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
    **{name: ColwiseParallel() for name in ("gate", "up")},
    **{name: RowwiseParallel() for name in ("attention.out", "down")},
}


def spread(model: Decoder, mesh: DeviceMesh, backend: str) -> None:
    """Give this rank its part of the model, and compile the blocks."""
    for block in model.blocks:
        parallelize_module(block, mesh["tensor"], PLAN)
        block.attention.heads //= mesh["tensor"].size()
        block.attention.key_heads //= mesh["tensor"].size()
        block.compile(backend=backend)
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])


def train(model: Decoder, tokens: Tensor, steps: int) -> list[Tensor]:
    """Return the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        scores = model(tokens[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def main() -> None:
    """Train on all ranks, and compare with one process."""
    parser = argparse.ArgumentParser(description="Train the decoder on several ranks.")
    parser.add_argument("--tensor", type=int, default=2, help="ranks that split a layer")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--backend", default="wrapper_ir", help="that of torch.compile")
    given = parser.parse_args()

    dist.init_process_group("gloo")
    rows = dist.get_world_size() // given.tensor
    mesh = init_device_mesh("cpu", (rows, given.tensor), mesh_dim_names=("data", "tensor"))
    model, (tokens,) = make(given.layers, batch=2 * rows)
    whole, _ = make(given.layers)
    spread(model, mesh, given.backend)

    mine = tokens.chunk(rows)[mesh["data"].get_local_rank()]
    with wir.record() as programs:
        found = torch.stack(train(model, mine, given.steps))
    dist.all_reduce(found, group=mesh["data"].get_group())
    wanted = torch.stack(train(whole, tokens, given.steps))
    torch.testing.assert_close(found / rows, wanted, rtol=1e-3, atol=1e-3)
    if dist.get_rank() == 0:
        losses = " ".join(f"{loss:.3f}" for loss in found / rows)
        print(f"{len(programs)} programs; losses {losses}, as those of one process")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
