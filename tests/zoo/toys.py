"""Architectures of ``transformers`` at toy sizes: a configuration, a class, and what it is given.

Nothing is downloaded: weights are what the class draws. A configuration starts from the small sizes
in ``SMALL``, as far as its class knows their names, and each entry adds what it needs beyond them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn

__all__ = [
    "HEARD",
    "LENGTH",
    "RESNET",
    "SMALL_TEXT",
    "VOCABULARY",
    "Architecture",
    "Made",
    "described",
    "ids",
    "image",
    "mask",
    "model",
    "toy",
    "wave",
]

Made = tuple[nn.Module, tuple[Any, ...]]
Inputs = Callable[[int], dict[str, Any]]

VOCABULARY = 48
LENGTH = 8
HEARD = 800
"""Samples of sound, enough for three windows of the usual stack of convolutions."""

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
    "max_position_embeddings": 32,
    "n_positions": 32,
    # Widths.
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embed_dim": 32,
    "embedding_size": 32,
    "hidden_dim": 64,
    "intermediate_size": 64,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "ffn_dim": 64,
    "d_ff": 64,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "projection_dim": 16,
    "head_dim": 16,
    "d_kv": 16,
    # Heads.
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "n_head": 2,
    "n_heads": 2,
    "num_heads": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    # Layers.
    "num_hidden_layers": 1,
    "n_layer": 1,
    "n_layers": 1,
    "num_layers": 1,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "num_decoder_layers": 1,
    # Experts.
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    # Pictures.
    "image_size": 32,
    "patch_size": 8,
    # Nothing is dropped, so that training says the same in every run.
    "dropout": 0.0,
    "dropout_rate": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "hidden_dropout": 0.0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "layerdrop": 0.0,
}

# Parts of larger configurations.
SMALL_TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "projection_dim": 16,
}
RESNET = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 16, 16, 32],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage4"],
    "num_channels": 3,
}


@dataclass(frozen=True)
class Architecture:
    """One architecture and what is done with it beyond a forward.

    Attributes:
        name: What ``--models`` is matched against.
        kind: The heading under which it stands.
        build: Makes the module and its arguments for a batch size.
        backward: Whether a training step is compared too.
        dynamic: Whether one compilation has to serve several batch sizes.
        exported: Whether it is made a library and a package, and run in a fresh process.
        context: Under what it runs, as for ``Case``.
        batch: The batch size where it is fixed.
    """

    name: str
    kind: str
    build: Callable[[int], Made]
    backward: bool = False
    dynamic: bool = False
    exported: bool = False
    context: str = "no_grad"
    batch: int = 2


class Named(nn.Module):
    """A model that takes by position what it has names for.

    Args:
        inner: The model.
        names: Of its arguments, in order.
        fixed: Arguments that are the same at each call.
    """

    def __init__(self, inner: nn.Module, names: tuple[str, ...], fixed: dict[str, Any]) -> None:
        super().__init__()
        self.inner = inner
        self.names = names
        self.fixed = fixed

    def forward(self, *values: Any) -> Any:
        """Call the model; what it returns is a mapping, of which the values count."""
        given = dict(zip(self.names, values, strict=True))
        result = self.inner(**given, **self.fixed)
        return tuple(result.to_tuple()) if hasattr(result, "to_tuple") else result


def toy(name: str, **overrides: Any) -> Any:
    """Make a small configuration; overrides that are configurations of parts may be dicts."""
    kind = getattr(transformers, f"{name}Config")
    known = inspect.signature(kind.__init__).parameters
    return kind(**{k: v for k, v in SMALL.items() if k in known} | overrides)


def model(
    config: str, head: str, inputs: Inputs, *, fixed: dict[str, Any] | None = None, **overrides: Any
) -> Callable[[int], Made]:
    """Return what builds a model: its configuration's name, its class's, and its inputs."""

    def build(batch: int) -> Made:
        made = getattr(transformers, head)(toy(config, **overrides))
        given = inputs(batch)
        return Named(made, tuple(given), fixed or {}), tuple(given.values())

    return functools.update_wrapper(build, model)


def described(
    name: str, kind: str, head: str, inputs: Inputs, rest: dict[str, Any]
) -> Architecture:
    """Describe an architecture; the rest are the modes beyond a forward, and the configuration."""
    modes = {key: rest.pop(key) for key in ("backward", "dynamic", "exported") if key in rest}
    return Architecture(name.lower(), kind, model(name, head, inputs, **rest), **modes)


def ids(batch: int, length: int = LENGTH) -> Tensor:
    """Return tokens, none of them one of the special three."""
    return torch.randint(3, VOCABULARY, (batch, length))


def mask(batch: int, length: int = LENGTH) -> Tensor:
    """Return a mask that hides the end of the first sentence."""
    shown = torch.ones(batch, length, dtype=torch.int64)
    shown[0, -3:] = 0
    return shown


def image(batch: int, size: int = 32) -> Tensor:
    """Return pictures."""
    return torch.randn(batch, 3, size, size)


def wave(batch: int, length: int = HEARD) -> Tensor:
    """Return sound."""
    return torch.randn(batch, length)
