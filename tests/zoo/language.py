"""Models of language: decoders, encoders, mixtures of experts, state spaces, and hybrids."""

from __future__ import annotations

from typing import Any

from tests.zoo.toys import Architecture, described, ids, mask, model

__all__ = ["LANGUAGE"]


def _tokens(batch: int) -> dict[str, Any]:
    return {"input_ids": ids(batch)}


def _masked(batch: int) -> dict[str, Any]:
    return {"input_ids": ids(batch), "attention_mask": mask(batch)}


def _pair(batch: int) -> dict[str, Any]:
    return {"input_ids": ids(batch), "decoder_input_ids": ids(batch, 4)}


def decoder(name: str, kind: str = "decoder", head: str = "", **rest: Any) -> Architecture:
    """Describe a decoder with its head."""
    return described(name, kind, head or f"{name}ForCausalLM", _tokens, rest)


def encoder(name: str, kind: str = "encoder", head: str = "", **rest: Any) -> Architecture:
    """Describe an encoder, which sees a mask."""
    return described(name, kind, head or f"{name}Model", _masked, rest)


def pair(name: str, head: str = "", **rest: Any) -> Architecture:
    """Describe an encoder and a decoder."""
    head = head or f"{name}ForConditionalGeneration"
    return described(name, "encoder-decoder", head, _pair, rest)


_EXPERTS = "mixture of experts"
_STATES = "state space"
_HYBRID = "hybrid"

LANGUAGE: tuple[Architecture, ...] = (
    decoder("Llama", backward=True, dynamic=True, exported=True),
    decoder("Mistral", dynamic=True),
    decoder("Gemma2", dynamic=True),
    decoder(
        "Gemma3Text",
        head="Gemma3ForCausalLM",
        num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"],
    ),
    decoder("Qwen2", backward=True),
    decoder("Qwen3", dynamic=True, exported=True),
    decoder("Phi3"),
    decoder("GPT2", head="GPT2LMHeadModel", backward=True, dynamic=True, exported=True),
    decoder("GPTNeoX"),
    decoder("GPTJ", rotary_dim=8),
    decoder(
        "GPTNeo", head="GPTNeoForCausalLM", attention_types=[[["global", "local"], 1]], num_layers=2
    ),
    decoder("GPTBigCode"),
    decoder("CodeGen", rotary_dim=8, n_head=4),
    decoder("OPT", word_embed_proj_dim=32),
    decoder("Bloom"),
    decoder("Falcon"),
    decoder("Mpt"),
    decoder("StableLm"),
    decoder("Cohere"),
    decoder("Olmo2"),
    decoder("Starcoder2"),
    decoder("Granite"),
    decoder("Nemotron"),
    decoder("Glm4"),
    decoder("SmolLM3"),
    decoder("XGLM"),
    decoder("DiffLlama", num_key_value_heads=2),
    decoder("Mixtral", _EXPERTS, backward=True),
    decoder("Qwen2Moe", _EXPERTS),
    decoder("Qwen3Moe", _EXPERTS),
    decoder("GptOss", _EXPERTS),
    decoder("Olmoe", _EXPERTS),
    decoder("GraniteMoe", _EXPERTS),
    decoder("Phimoe", _EXPERTS),
    decoder(
        "DeepseekV3",
        _EXPERTS,
        kv_lora_rank=8,
        q_lora_rank=8,
        qk_rope_head_dim=8,
        v_head_dim=16,
        qk_nope_head_dim=8,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=0,
        num_key_value_heads=2,
    ),
    decoder("Mamba", _STATES, state_size=4, backward=True),
    decoder("Mamba2", _STATES, state_size=4, num_heads=4, head_dim=16, n_groups=1, chunk_size=4),
    decoder("FalconMamba", _STATES, state_size=4),
    decoder("Rwkv", _STATES, context_length=16, num_hidden_layers=2),
    decoder("xLSTM", _STATES),
    decoder("RecurrentGemma", _HYBRID, lru_width=32, num_hidden_layers=3),
    decoder(
        "Bamba",
        _HYBRID,
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_state=4,
        mamba_n_groups=1,
        mamba_chunk_size=4,
        num_hidden_layers=2,
        attn_layer_indices=[1],
    ),
    decoder(
        "Jamba",
        _HYBRID,
        num_hidden_layers=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=4,
        use_mamba_kernels=False,
    ),
    decoder(
        "FalconH1",
        _HYBRID,
        mamba_d_ssm=64,
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_state=4,
        mamba_n_groups=1,
        mamba_chunk_size=4,
    ),
    decoder("Lfm2", _HYBRID, num_hidden_layers=2, layer_types=["conv", "full_attention"]),
    decoder(
        "Qwen3Next",
        _HYBRID,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
    encoder("Bert", backward=True, dynamic=True, exported=True),
    encoder("Roberta", max_position_embeddings=40),
    encoder("DistilBert"),
    encoder("Albert"),
    encoder("Electra", dynamic=True),
    encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    encoder("ModernBert", global_attn_every_n_layers=2, num_hidden_layers=2, local_attention=4),
    encoder("MPNet"),
    encoder("XLNet"),
    encoder("RoFormer"),
    encoder("ConvBert", num_attention_heads=4),
    encoder("SqueezeBert"),
    encoder(
        "MobileBert", true_hidden_size=32, intra_bottleneck_size=32, num_feedforward_networks=2
    ),
    encoder("Longformer", attention_window=[4]),
    encoder("BigBird", attention_type="original_full"),
    encoder("Funnel", block_sizes=[1, 1], num_decoder_layers=1, d_head=16, d_inner=64),
    encoder("Nystromformer", num_landmarks=8, segment_means_seq_len=8),
    encoder("Esm", position_embedding_type="rotary", mask_token_id=3),
    Architecture("fnet", "encoder", model("FNet", "FNetModel", _tokens)),
    pair("T5", backward=True, dynamic=True, exported=True),
    pair("UMT5"),
    pair("LongT5", local_radius=3),
    pair("Bart", backward=True, dynamic=True),
    pair("Pegasus"),
    pair("MBart"),
    pair("Marian", head="MarianMTModel"),
    pair("M2M100"),
    pair("Blenderbot"),
    pair(
        "ProphetNet",
        num_encoder_layers=1,
        num_encoder_attention_heads=2,
        num_decoder_attention_heads=2,
        encoder_ffn_dim=64,
        ngram=2,
    ),
    pair(
        "LED",
        attention_window=4,
        max_encoder_position_embeddings=32,
        max_decoder_position_embeddings=32,
    ),
    pair("PegasusX", block_size=4, num_global_tokens=2),
    pair(
        "SwitchTransformers",
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        expert_capacity=8,
    ),
)
