"""Models of pictures and words together, and of what an agent sees and does."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.toys import LENGTH, SMALL_TEXT, VOCABULARY, Architecture, described, ids, image, mask

__all__ = ["MIXED"]


def _seen_and_read(batch: int) -> dict[str, Any]:
    return {"input_ids": ids(batch), "pixel_values": image(batch), "attention_mask": mask(batch)}


def _with_picture(batch: int, token: int = 5, number: int = 16) -> dict[str, Any]:
    """Words after a picture, for which the sequence has one token a patch."""
    words = ids(batch).clamp(min=6)
    picture = torch.full((batch, number), token)
    return {"input_ids": torch.cat([picture, words], 1), "pixel_values": image(batch)}


def _patches_and_words(batch: int) -> dict[str, Any]:
    """Qwen's way: all patches of all pictures in one row, and the grid of each picture."""
    words = ids(batch).clamp(min=6)
    picture = torch.full((batch, 4), 5)
    return {
        "input_ids": torch.cat([picture, words], 1),
        "pixel_values": torch.randn(batch * 16, 3 * 2 * 8 * 8),
        "image_grid_thw": torch.tensor([[1, 4, 4]] * batch),
        "mm_token_type_ids": torch.tensor([[1] * 4 + [0] * LENGTH] * batch),
    }


def _decisions(batch: int) -> dict[str, Any]:
    return {
        "states": torch.randn(batch, 4, 5),
        "actions": torch.randn(batch, 4, 3),
        "rewards": torch.randn(batch, 4, 1),
        "returns_to_go": torch.randn(batch, 4, 1),
        "timesteps": torch.arange(4).expand(batch, 4).contiguous(),
        "attention_mask": torch.ones(batch, 4),
    }


def mixes(name: str, head: str, inputs: Any, **rest: Any) -> Architecture:
    """Describe a model of pictures and words."""
    return described(name, "multimodal", head or f"{name}Model", inputs, rest)


_SMALL_VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
    "projection_dim": 16,
}
_LLAMA = {
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "use_cache": False,
}

MIXED: tuple[Architecture, ...] = (
    mixes(
        "CLIP",
        "CLIPModel",
        _seen_and_read,
        text_config=SMALL_TEXT,
        vision_config=_SMALL_VISION,
        backward=True,
        dynamic=True,
    ),
    mixes(
        "Siglip",
        "SiglipModel",
        lambda batch: {"input_ids": ids(batch), "pixel_values": image(batch)},
        text_config=SMALL_TEXT,
        vision_config=_SMALL_VISION,
    ),
    mixes(
        "CLIPSeg",
        "CLIPSegForImageSegmentation",
        _seen_and_read,
        text_config=SMALL_TEXT,
        vision_config=_SMALL_VISION | {"num_hidden_layers": 3},
        extract_layers=[0, 1, 2],
        reduce_dim=16,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=32,
    ),
    mixes(
        "Blip",
        "BlipForConditionalGeneration",
        _seen_and_read,
        text_config=SMALL_TEXT,
        vision_config=_SMALL_VISION,
    ),
    mixes(
        "Blip2",
        "Blip2ForConditionalGeneration",
        lambda batch: _with_picture(batch, number=4),
        text_config={
            "model_type": "opt",
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 32,
        },
        vision_config=_SMALL_VISION,
        qformer_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "encoder_hidden_size": 32,
        },
        num_query_tokens=4,
        image_token_index=5,
    ),
    mixes(
        "Llava",
        "LlavaForConditionalGeneration",
        _with_picture,
        text_config=_LLAMA,
        vision_config=_SMALL_VISION | {"model_type": "clip_vision_model", "num_hidden_layers": 2},
        image_token_index=5,
    ),
    mixes(
        "PaliGemma",
        "PaliGemmaForConditionalGeneration",
        _with_picture,
        text_config=_LLAMA | {"model_type": "gemma", "head_dim": 16},
        vision_config=_SMALL_VISION | {"model_type": "siglip_vision_model", "projection_dim": 32},
        projection_dim=32,
        image_token_index=5,
    ),
    mixes(
        "Qwen2VL",
        "Qwen2VLForConditionalGeneration",
        _patches_and_words,
        text_config=_LLAMA
        | {
            "model_type": "qwen2_vl_text",
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": [2, 3, 3],
            },
        },
        vision_config={
            "depth": 1,
            "embed_dim": 32,
            "num_heads": 2,
            "patch_size": 8,
            "hidden_size": 32,
            "mlp_ratio": 2,
        },
        image_token_id=5,
        video_token_id=4,
        vision_start_token_id=3,
    ),
    mixes(
        "Vilt",
        "ViltModel",
        lambda batch: _seen_and_read(batch)
        | {"token_type_ids": torch.zeros(batch, 8, dtype=torch.int64)},
        max_image_length=-1,
    ),
    mixes("Git", "GitForCausalLM", _seen_and_read, vision_config=_SMALL_VISION),
    mixes(
        "LayoutLM",
        "LayoutLMModel",
        lambda batch: {
            "input_ids": ids(batch),
            "bbox": torch.randint(0, 32, (batch, 8, 4)).sort(-1).values,
        },
        max_2d_position_embeddings=64,
    ),
    mixes(
        "Lxmert",
        "LxmertModel",
        lambda batch: {
            "input_ids": ids(batch),
            "visual_feats": torch.randn(batch, 5, 16),
            "visual_pos": torch.rand(batch, 5, 4),
        },
        visual_feat_dim=16,
        l_layers=1,
        x_layers=1,
        r_layers=1,
    ),
    mixes(
        "DecisionTransformer",
        "DecisionTransformerModel",
        _decisions,
        state_dim=5,
        act_dim=3,
        max_ep_len=16,
    ),
)
