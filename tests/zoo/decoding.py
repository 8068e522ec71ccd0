"""Steps of generation: a token goes in, the cache of keys and values grows or is written to."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, StaticCache

from tests.zoo.toys import Architecture, Made, ids, toy

__all__ = ["DECODING"]

LAYERS = 2


class Growing(nn.Module):
    """A step whose cache comes in and, one longer, goes out.

    Args:
        inner: A decoder with its head.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, token: Tensor, *cached: Tensor) -> tuple[Tensor, ...]:
        """Return the logits and the new cache, keys and values in turn."""
        pairs = list(zip(cached[::2], cached[1::2], strict=True))
        cache = DynamicCache(ddp_cache_data=pairs)
        result = self.inner(input_ids=token, past_key_values=cache, use_cache=True)
        grown = (tensor for layer in cache.layers for tensor in (layer.keys, layer.values))
        return (result.logits, *grown)


class InPlace(nn.Module):
    """A step that writes to a cache of fixed length, which the module keeps between calls.

    Args:
        inner: A decoder with its head.
        batch: How many sequences the cache is for.
    """

    def __init__(self, inner: nn.Module, batch: int) -> None:
        super().__init__()
        self.inner = inner
        config: Any = inner.config
        self.cache = StaticCache(config=config, max_cache_len=16)
        heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.cache.early_initialization(batch, heads, size, torch.float32, torch.device("cpu"))

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        """Return the logits."""
        result = self.inner(
            input_ids=token,
            position_ids=position[None],
            past_key_values=self.cache,
            use_cache=True,
        )
        return result.logits


def _decoder(name: str, overrides: dict[str, Any]) -> nn.Module:
    config = toy(name, **{"num_hidden_layers": LAYERS, "use_cache": True} | overrides)
    head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    made: nn.Module = getattr(transformers, head)(config)
    return made


def growing(name: str, heads: int = 1, **overrides: Any) -> Architecture:
    """Describe a step with a growing cache; what varies is not the batch but the length so far."""

    def build(length: int) -> Made:
        cached = (torch.randn(2, heads, length, 16) for _ in range(2 * LAYERS))
        return Growing(_decoder(name, overrides)), (ids(2, 1), *cached)

    title = f"{name.lower()} decode"
    return Architecture(title, "decoding", build, dynamic=True, batch=4)


def in_place(name: str, **overrides: Any) -> Architecture:
    """Describe a step that writes to its cache; each call goes on where the last one ended."""

    def build(batch: int) -> Made:
        module = InPlace(_decoder(name, overrides), batch)
        return module, (ids(batch, 1), torch.tensor([0]))

    return Architecture(f"{name.lower()} static cache", "decoding", build)


DECODING: tuple[Architecture, ...] = (
    growing("Llama"),
    growing("Mistral"),
    growing("Qwen3"),
    growing("GPT2", heads=2, n_layer=LAYERS),
    growing("Mixtral"),
    growing("GPTNeoX", heads=2),
    growing("Phi3"),
    in_place("Llama"),
    in_place("Qwen2"),
    in_place("Gemma2", layer_types=["full_attention"] * LAYERS),
)
