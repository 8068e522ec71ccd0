"""A decoder-only transformer with random weights: small, but with every part of a real one.

Rotary positions, grouped-query attention through ``scaled_dot_product_attention``, RMS norms, a
gated feed-forward and an output projection tied to the embedding.

    python examples/decoder.py                                # compiled through wrapper_ir, and run
    wrapper-ir capture examples/decoder.py:make -o decoder.wir
    python examples/demo.py                                   # trained, compared and timed as well
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The sizes of a decoder."""

    layers: int = 4
    width: int = 256
    heads: int = 8
    key_heads: int = 4
    hidden: int = 704
    vocabulary: int = 2048
    context: int = 128


class Attention(nn.Module):
    """Causal attention with rotary positions; several query heads share a key head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.key_heads = config.heads, config.key_heads
        self.head_width = config.width // config.heads
        pairs = self.key_heads * self.head_width
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, pairs, bias=False)
        self.value = nn.Linear(config.width, pairs, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attend within ``x``, of shape (batch, time, width)."""
        query = rotate(self._split(self.query(x), self.heads), cos, sin)
        key = rotate(self._split(self.key(x), self.key_heads), cos, sin)
        value = self._split(self.value(x), self.key_heads)
        group = self.heads // self.key_heads
        attended = F.scaled_dot_product_attention(
            query,
            key.repeat_interleave(group, dim=1),
            value.repeat_interleave(group, dim=1),
            is_causal=True,
        )
        out: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.head_width)).transpose(1, 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs of channels by an angle that grows with the position."""
    one, two = x.chunk(2, dim=-1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), dim=-1)


class Block(nn.Module):
    """Attention and a gated feed-forward, each normalised first and added to its input."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width)
        self.attention = Attention(config)
        self.hidden_norm = nn.RMSNorm(config.width)
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the block's output, of the same shape as ``x``."""
        x = x + self.attention(self.attention_norm(x), cos, sin)
        normed = self.hidden_norm(x)
        down: Tensor = self.down(F.silu(self.gate(normed)) * self.up(normed))
        return x + down


class Decoder(nn.Module):
    """Maps tokens, shape (batch, time), to next-token scores, shape (batch, time, vocabulary)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.head.weight = self.embedding.weight
        pairs = config.width // config.heads // 2
        angles = torch.outer(
            torch.arange(config.context), 10000.0 ** -(torch.arange(pairs) / pairs)
        )
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of every next token."""
        time = tokens.shape[1]
        x = self.embedding(tokens)
        cos, sin = self.cos[:time], self.sin[:time]
        for block in self.blocks:
            x = block(x, cos, sin)
        scores: Tensor = self.head(self.norm(x))
        return scores


def make(layers: int = 4, batch: int = 2, time: int = 64) -> tuple[Decoder, tuple[Tensor]]:
    """Return a decoder and the arguments of one call, the same each time."""
    generator = torch.Generator().manual_seed(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Decoder(Config(layers=layers))
    tokens = torch.randint(model.config.vocabulary, (batch, time), generator=generator)
    return model.eval(), (tokens,)


def main() -> None:
    """Compile the decoder, run it and print its distance from eager."""
    model, (tokens,) = make()
    compiled = torch.compile(model, backend="wrapper_ir")
    with torch.no_grad():
        difference = (compiled(tokens) - model(tokens)).abs().max()
    print(f"largest difference to eager: {difference:.1e}")


if __name__ == "__main__":
    main()
