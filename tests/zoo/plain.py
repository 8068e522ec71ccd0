"""Models that are no transformers of Hugging Face's: torch's own modules, and what people write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.zoo import blocks
from tests.zoo.language import LANGUAGE
from tests.zoo.toys import Architecture, Made
from tests.zoo.vision import VISION

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PLAIN"]


class First(nn.Module):
    """A module with a tuple as its result, some of which is left out."""

    def __init__(self, inner: nn.Module, **fixed: Any) -> None:
        super().__init__()
        self.inner = inner
        self.fixed = fixed

    def forward(self, *given: Tensor) -> Any:
        """Call the module with its fixed arguments."""
        return self.inner(*given, **self.fixed)


def _transformer(batch: int) -> Made:
    module = nn.Transformer(32, 2, 1, 1, 64, dropout=0.0, batch_first=True)
    return module, (torch.randn(batch, 6, 32), torch.randn(batch, 4, 32))


def _encoder(batch: int) -> Made:
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
    hidden = torch.zeros(batch, 6, dtype=torch.bool)
    hidden[0, 4:] = True
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return First(module), (torch.randn(batch, 6, 32), None, hidden)


def _attention(batch: int) -> Made:
    module = First(nn.MultiheadAttention(32, 4, batch_first=True, add_bias_kv=True))
    x = torch.randn(batch, 6, 32)
    return module, (x, torch.randn(batch, 5, 32), torch.randn(batch, 5, 32))


def _lstm(batch: int) -> Made:
    return nn.LSTM(8, 16, 2, bidirectional=True), (torch.randn(4, batch, 8),)


def _gru(batch: int) -> Made:
    return nn.GRU(8, 16, batch_first=True), (torch.randn(batch, 4, 8), torch.zeros(1, batch, 16))


def _bag(batch: int) -> Made:
    bags = nn.EmbeddingBag(20, 8, mode="mean")
    offsets = torch.arange(0, 4 * batch, 4)
    return bags, (torch.randint(0, 20, (4 * batch,)), offsets)


def _of(kind: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Callable[[int], Made]:
    """Return what builds a module whose arguments have such shapes after the batch."""

    def build(batch: int) -> Made:
        return kind(), tuple(torch.randn(batch, *shape) for shape in shapes)

    return build


def _denoiser(batch: int) -> Made:
    words = torch.randn(batch, 5, 16)
    return blocks.Denoiser(), (torch.randn(batch, 4, 8, 8), torch.arange(batch) * 10, words)


def _graph_net(batch: int) -> Made:
    edges = torch.randint(0, 3 * batch, (2, 7 * batch))
    return blocks.GraphNet(), (torch.randn(3 * batch, 8), edges)


def _codebook(batch: int) -> Made:
    return blocks.Codebook(), (torch.randn(batch, 8, 6),)


def _by_name(name: str) -> Callable[[int], Made]:
    return next(a.build for a in (*LANGUAGE, *VISION) if a.name == name)


def _converted(name: str, dtype: torch.dtype) -> Callable[[int], Made]:
    """Return what builds an architecture with weights and arguments in another precision."""

    def build(batch: int) -> Made:
        module, arguments = _by_name(name)(batch)
        given = (a.to(dtype) if a.is_floating_point() else a for a in arguments)
        return module.to(dtype), tuple(given)

    return build


class Heads(nn.Module):
    """Results of many shapes in a nest of dicts and lists."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 8)

    def forward(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a nest of results."""
        x = functional.silu(self.body(given["x"]))
        return {"pooled": [x.mean(0), x.amax(0)], "all": (x, {"scaled": x * given["y"][0]})}


def _nested(batch: int) -> Made:
    return Heads(), ({"x": torch.randn(batch, 8), "y": [torch.randn(8)]},)


_TORCH, _WRITTEN, _CONTEXT = "torch.nn", "hand-written", "precision and mode"

PLAIN: tuple[Architecture, ...] = (
    Architecture("transformer", _TORCH, _transformer, backward=True, dynamic=True),
    Architecture("transformer encoder", _TORCH, _encoder),
    Architecture("multihead attention", _TORCH, _attention, backward=True),
    Architecture("lstm", _TORCH, _lstm, backward=True),
    Architecture("gru", _TORCH, _gru, backward=True),
    Architecture("embedding bag", _TORCH, _bag),
    Architecture("denoiser", _WRITTEN, _denoiser, backward=True, dynamic=True, exported=True),
    Architecture("diffusion transformer", _WRITTEN, _of(blocks.AdaptiveBlock, (6, 32), (32,))),
    Architecture("autoencoder", _WRITTEN, _of(blocks.Autoencoder, (3, 8, 8)), backward=True),
    Architecture("graph net", _WRITTEN, _graph_net, backward=True, dynamic=True),
    Architecture("wavenet", _WRITTEN, _of(blocks.WaveNet, (1, 32)), backward=True),
    Architecture("codebook", _WRITTEN, _codebook, backward=True),
    Architecture("fourier operator", _WRITTEN, _of(blocks.FourierOperator, (4, 16))),
    Architecture("integrator", _WRITTEN, _of(blocks.Integrator, (4,)), backward=True),
    Architecture("point net", _WRITTEN, _of(blocks.PointNet, (3, 10)), backward=True, dynamic=True),
    Architecture("broken graph", _WRITTEN, _of(blocks.Broken, (8,)), backward=True),
    Architecture("beam search", _WRITTEN, _of(blocks.BeamStep, (3, 12), (3,))),
    Architecture("detection head", _WRITTEN, _of(blocks.DetectionHead, (8, 6, 6))),
    Architecture("nested results", _WRITTEN, _nested),
    Architecture("llama autocast", _CONTEXT, _by_name("llama"), backward=True, context="autocast"),
    Architecture("vit autocast", _CONTEXT, _by_name("vit"), context="autocast"),
    Architecture("resnet autocast", _CONTEXT, _by_name("resnet"), context="autocast"),
    Architecture("bert inference mode", _CONTEXT, _by_name("bert"), context="inference_mode"),
    Architecture("gpt2 inference mode", _CONTEXT, _by_name("gpt2"), context="inference_mode"),
    Architecture("llama bfloat16", _CONTEXT, _converted("llama", torch.bfloat16)),
    Architecture("mixtral bfloat16", _CONTEXT, _converted("mixtral", torch.bfloat16)),
    Architecture("convnext float16", _CONTEXT, _converted("convnext", torch.float16)),
    Architecture("t5 float64", _CONTEXT, _converted("t5", torch.float64)),
)
