"""A model of Llama's shape, and ways to spread its training over ranks.

``fsdp2`` and ``tensor`` compile each block and the loss, as is usual for them. ``simple`` is
SimpleFSDP: parameters are gathered in the graph, the model is compiled as a whole, and Inductor
buckets its collectives and moves them to where work hides them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional

from tests.distributed.parallelisms import gathering

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed.device_mesh import DeviceMesh

    #: Compiles a module.
    Compile = Callable[[nn.Module], nn.Module]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model and of its batches."""

    layers: int
    width: int
    inner: int
    heads: int
    groups: int
    words: int
    batch: int
    length: int

    @property
    def size(self) -> int:
        """Numbers of a head."""
        return self.width // self.heads


#: Llama 3.2 1B with an untied head (1.5 billion parameters), and one for machines without GPUs.
SHAPES = {
    "llama": Shape(16, 2048, 8192, 32, 8, 128256, 2, 2048),
    "small": Shape(2, 128, 256, 8, 4, 512, 2, 32),
}


def turned(x: Tensor) -> Tensor:
    """Return the halves of a head, turned by a right angle."""
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Attention(nn.Module):
    """Grouped queries with rotary positions; heads may be those of one rank."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.size = shape.size
        self.q, self.out = (nn.Linear(shape.width, shape.width, bias=False) for _ in range(2))
        self.k, self.v = (
            nn.Linear(shape.width, shape.groups * shape.size, bias=False) for _ in range(2)
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return ``[batch, length, width]``."""
        q, k, v = (
            part(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        q, k = (each * cos + turned(each) * sin for each in (q, k))
        k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return found


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(shape.width, shape.inner, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[batch, length, width]``."""
        found: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return found


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(shape.width), nn.RMSNorm(shape.width)
        self.attention, self.forward_part = Attention(shape), FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return what it is given with both added."""
        x = x + self.attention(self.before(x), cos, sin)
        found: Tensor = x + self.forward_part(self.between(x))
        return found


class Tail(nn.Module):
    """The last norm, the head and the loss."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)

    def forward(self, x: Tensor, wanted: Tensor) -> Tensor:
        """Return the mean cross entropy."""
        logits = self.head(self.norm(x)).float()
        return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())


class Decoder(nn.Module):
    """A decoder with its loss."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.words, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.tail = Tail(shape)
        turns = 1 / 500000 ** (torch.arange(0, shape.size, 2) / shape.size)
        angles = torch.outer(torch.arange(shape.length), turns).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the loss of predicting each of ``[batch, length + 1]`` from those before it."""
        x = self.embedding(tokens[:, :-1])
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        found: Tensor = self.tail(x, tokens[:, 1:])
        return found


def fsdp2(model: Decoder, mesh: DeviceMesh, compiled: Compile) -> nn.Module:
    """Shard by hooks around compiled blocks."""
    _by_blocks(model, compiled)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model.tail, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _by_blocks(model: Decoder, compiled: Compile) -> None:
    for name, block in list(model.blocks.named_children()):
        model.blocks.register_module(name, compiled(block))
    model.tail = compiled(model.tail)


def simple(model: Decoder, mesh: DeviceMesh, compiled: Compile) -> nn.Module:
    """Shard by ops in the graph: SimpleFSDP."""
    return compiled(gathering(model, mesh))


def tensor(model: Decoder, mesh: DeviceMesh, compiled: Compile) -> nn.Module:
    """Split products; norms work on parts of the sequence."""
    of_rows, whole = Shard(1), Replicate()
    plan: dict[str, Any] = {
        "embedding": RowwiseParallel(input_layouts=whole, output_layouts=of_rows),
        "tail.norm": SequenceParallel(),
        "tail.head": ColwiseParallel(input_layouts=of_rows, output_layouts=whole),
    }
    for at in range(len(model.blocks)):
        block = f"blocks.{at}"
        plan |= {f"{block}.before": SequenceParallel(), f"{block}.between": SequenceParallel()}
        plan[f"{block}.attention"] = PrepareModuleInput(
            input_layouts=(of_rows, None, None), desired_input_layouts=(whole, None, None)
        )
        plan[f"{block}.forward_part"] = PrepareModuleInput(
            input_layouts=(of_rows,), desired_input_layouts=(whole,)
        )
        split = [f"{block}.attention.{part}" for part in ("q", "k", "v")]
        split += [f"{block}.forward_part.{part}" for part in ("gate", "up")]
        plan |= {name: ColwiseParallel() for name in split}
        for name in ("attention.out", "forward_part.down"):
            plan[f"{block}.{name}"] = RowwiseParallel(output_layouts=of_rows)
    parallelize_module(model, mesh, plan)
    _by_blocks(model, compiled)
    # Otherwise blocks are given what is not there yet, which fails in the backward, in stock too.
    model.embedding = compiled(model.embedding)
    return model


WAYS: dict[str, Callable[[Decoder, DeviceMesh, Compile], nn.Module]] = {
    "fsdp2": fsdp2,
    "simple": simple,
    "tensor": tensor,
}
