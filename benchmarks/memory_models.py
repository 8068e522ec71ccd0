"""Models at sizes where memory matters: activations of 36 to 51 MiB, random weights, no downloads.

Each is the beginning of the model it is named after, with the original layers but fewer of them, so
that a call takes about half a second on two cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    Made = tuple[nn.Module, tuple[Any, ...]]

__all__ = ["MODELS", "make"]


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        found = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=self.is_causal
        )
        out: Tensor = self.out(found.transpose(1, 2).flatten(-2))
        return out


class Block(nn.Module):
    """Attention and two linear layers, with pre-norm (GPT-2, ViT) or post-norm (BERT)."""

    def __init__(
        self, width: int, heads: int, *, is_causal: bool = False, norms_first: bool = True
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, is_causal)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms_first = norms_first

    def forward(self, x: Tensor) -> Tensor:
        if self.norms_first:
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x))
        y: Tensor = self.norm2(x + self.down(F.gelu(self.up(x))))
        return y


class Bert(nn.Module):
    """Embeddings and encoder layers."""

    def __init__(self, layers: int = 2, width: int = 768, vocabulary: int = 8192) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, 12, norms_first=False) for _ in range(layers)))

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        out: Tensor = self.blocks(self.norm(self.words(ids) + self.places(places)))
        return out


class Gpt2(nn.Module):
    """Embeddings, causal layers and a head over the whole vocabulary: a result of 196 MiB."""

    def __init__(self, layers: int = 2, width: int = 768, vocabulary: int = 50257) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.blocks = nn.Sequential(*(Block(width, 12, is_causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.blocks(self.words(ids) + self.places(places)))
        return F.linear(x, self.words.weight)


class Vit(nn.Module):
    """Patches by convolution, a class token, encoder layers and a head on the token."""

    def __init__(self, layers: int = 2, width: int = 768, patch: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width))
        self.blocks = nn.Sequential(*(Block(width, 12) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        out: Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return out


class Residual(nn.Module):
    """ResNet's basic block, with batch norms in inference mode."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(self.conv1(x)).relu()
        return (self.norm2(self.conv2(y)) + x).relu()


class ResNet(nn.Module):
    """The stem, the first stage and half of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.first = nn.Sequential(Residual(64), Residual(64))
        self.down, self.second = nn.Conv2d(64, 128, 3, 2, 1, bias=False), Residual(128)
        self.head = nn.Linear(128, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(self.norm(self.stem(image)).relu(), 3, 2, 1)
        x = self.second(self.down(self.first(x)))
        out: Tensor = self.head(x.mean((-2, -1)))
        return out


class Convolutions(nn.Module):
    """Two convolutions, each with a group norm and SiLU."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(8, outside), nn.GroupNorm(8, outside)

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.norm1(self.conv1(x)))
        return F.silu(self.norm2(self.conv2(x)))


class UNet(nn.Module):
    """One step down, one step up and a skip connection: 48 channels at full resolution."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.enter = Convolutions(3, width)
        self.deep = Convolutions(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave, self.last = Convolutions(2 * width, width), nn.Conv2d(width, 3, 1)

    def forward(self, image: Tensor) -> Tensor:
        across = self.enter(image)
        deep = self.deep(F.avg_pool2d(across, 2))
        out: Tensor = self.last(self.leave(torch.cat([across, self.up(deep)], 1)))
        return out


def _ids(batch: int, length: int) -> tuple[Tensor]:
    return (torch.randint(0, 8192, (batch, length)),)


#: Functions by model name that return the model and its arguments for a batch size.
MODELS: dict[str, tuple[int, Callable[[int], Made]]] = {
    "bert": (16, lambda batch: (Bert(), _ids(batch, 192))),
    "gpt2": (8, lambda batch: (Gpt2(), _ids(batch, 128))),
    "vit": (16, lambda batch: (Vit(), (torch.randn(batch, 3, 224, 224),))),
    "resnet": (16, lambda batch: (ResNet(), (torch.randn(batch, 3, 224, 224),))),
    "unet": (4, lambda batch: (UNet(), (torch.randn(batch, 3, 256, 256),))),
}


def make(name: str, *, is_quick: bool = False) -> Made:
    """Return a model in evaluation mode and its arguments, the same in every process."""
    torch.manual_seed(0)
    batch, build = MODELS[name]
    model, args = build(1 if is_quick else batch)
    return model.eval(), args
