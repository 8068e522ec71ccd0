"""Architectures of ``transformers`` at toy sizes, made from configurations without downloads."""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn

__all__ = ["bert", "gpt2", "llama", "t5", "vit"]

VOCABULARY = 48
LENGTH = 8

#: What all of them share: two heads of sixteen, no dropout, no cache of keys and values.
_COMMON = {"use_cache": False, "attn_implementation": "sdpa"}


def _ids(batch: int, length: int = LENGTH) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, length))


def bert(batch: int) -> tuple[nn.Module, tuple[object, ...]]:
    """BERT, one layer, with an attention mask that hides the end of one sentence."""
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **_COMMON,
    )
    mask = torch.ones(batch, LENGTH, dtype=torch.int64)
    mask[0, 5:] = 0
    return transformers.BertModel(config), (_ids(batch), mask)


def gpt2(batch: int) -> tuple[nn.Module, tuple[object, ...]]:
    """GPT-2, one layer; its head shares the storage of the embedding."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=16,
        n_embd=32,
        n_layer=1,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        **_COMMON,
    )
    return transformers.GPT2LMHeadModel(config), (_ids(batch),)


class _T5(nn.Module):
    """T5 with its arguments by position."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor, decoder_ids: Tensor) -> Tensor:
        return self.inner(input_ids=ids, decoder_input_ids=decoder_ids).logits


def t5(batch: int) -> tuple[nn.Module, tuple[object, ...]]:
    """T5, one layer of encoder and one of decoder, with its buckets of relative positions."""
    config = transformers.T5Config(  # type: ignore[call-arg]
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return _T5(transformers.T5ForConditionalGeneration(config)), (_ids(batch), _ids(batch, 4))


def vit(batch: int) -> tuple[nn.Module, tuple[object, ...]]:
    """ViT, one layer: patches by convolution, and a class token put before them."""
    config = transformers.ViTConfig(  # type: ignore[call-arg]
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=16,
        patch_size=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    return transformers.ViTModel(config), (torch.randn(batch, 3, 16, 16),)


def llama(batch: int) -> tuple[nn.Module, tuple[object, ...]]:
    """Llama, one layer: rotary positions, grouped keys and values, RMS norm, a gated MLP."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=16,
        **_COMMON,
    )
    return transformers.LlamaForCausalLM(config), (_ids(batch),)
