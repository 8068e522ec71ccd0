"""The models whose calls ``benchmarks/whole_call.py`` times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Made = tuple[Callable[..., Any], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Subject:
    """A model, and what its calls may take.

    Attributes:
        make: Returns a function and its arguments.
        about: What it is.
        training: Whether gradients are tracked.
        of_stock: The largest ratio of our C++ to stock's Python, or None.
        parameters: How many it has, if they are many.
    """

    make: Callable[[], Made]
    about: str
    training: bool = False
    of_stock: float | None = None
    parameters: int = 0


def add() -> Made:
    """Return the smallest function."""
    return lambda x: x + 1, (torch.randn(4, 4),)


def tracked() -> Made:
    """Return a small function whose weight has gradients."""
    w = torch.randn(4, 4, requires_grad=True)
    return lambda x: (x * w).relu() + 1, (torch.randn(4, 4),)


def of_module(model: nn.Module, *args: Tensor) -> Made:
    """Return a module as a function."""
    return lambda *given: model(*given), args


def ten() -> Made:
    """Return a function of ten arguments."""
    return lambda *given: sum(given[1:], given[0]), tuple(torch.randn(4, 4) for _ in range(10))


def mlp() -> Made:
    """Return eight 64-wide linear layers with ReLU and a softmax at the end, batch 4."""
    layers: list[nn.Module] = []
    for _ in range(8):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return of_module(nn.Sequential(*layers[:-1], nn.Softmax(-1)).eval(), torch.randn(4, 64))


def encoder() -> Made:
    """Return torch's own encoder at inference."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    return of_module(model, torch.randn(1, 8, 64))


class Recommender(nn.Module):
    """Looks twenty features up, and lets a small perceptron judge them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100, 16) for _ in range(20))
        self.top = nn.Sequential(nn.Linear(320, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, features: Tensor) -> Tensor:
        found = [table(features[:, at]) for at, table in enumerate(self.tables)]
        result: Tensor = self.top(torch.cat(found, 1)).sigmoid()
        return result


def recommender() -> Made:
    """Return the model of twenty tables, batch 8."""
    return of_module(Recommender().eval(), torch.randint(100, (8, 20)))


class Block(nn.Module):
    """One block of a decoder: norms, attention, a gated perceptron."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.up(self.between(x)).chunk(2, -1)
        result: Tensor = x + self.down(functional.silu(gate) * up)
        return result


def block() -> Made:
    """Return a decoder's block, 16 tokens."""
    return of_module(Block().eval(), torch.randn(1, 16, 128))


class Scales(nn.Module):
    """Adds four hundred parameters of four numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.randn(4)) for _ in range(400))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = x + part
        return x


def many() -> Made:
    """Return the model of four hundred parameters."""
    return of_module(Scales().eval(), torch.randn(4, 4))


SUBJECTS = {
    "mlp": Subject(mlp, "8 x Linear(64, 64), batch 4", of_stock=0.43),
    "add": Subject(add, "x + 1", of_stock=0.75),
    "ten": Subject(ten, "the sum of ten arguments"),
    "tracked": Subject(tracked, "(x * w).relu() + 1, forward alone", True, of_stock=0.45),
    "encoder": Subject(encoder, "6 x TransformerEncoderLayer(64)"),
    "recommender": Subject(recommender, "20 embeddings, perceptron"),
    "block": Subject(block, "a decoder's block, 16 tokens"),
    "many": Subject(many, "400 parameters of 4 numbers", parameters=400),
    "tracked training": Subject(tracked, "the same, forward and backward", True),
    "mlp training": Subject(mlp, "the same, forward and backward", True),
    "block training": Subject(block, "the same, forward and backward", True),
}
