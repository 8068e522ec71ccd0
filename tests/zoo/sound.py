"""Models of sound, and of series of numbers."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.toys import SMALL_TEXT, Architecture, described, ids, wave

__all__ = ["SERIES", "SOUND"]


def _sound(batch: int) -> dict[str, Any]:
    return {"input_values": wave(batch)}


def _whispered(batch: int) -> dict[str, Any]:
    return {"input_features": torch.randn(batch, 8, 32), "decoder_input_ids": ids(batch, 4)}


def _spectrum(batch: int) -> dict[str, Any]:
    return {"input_values": torch.randn(batch, 32, 16)}


def _past(batch: int) -> dict[str, Any]:
    return {"past_values": torch.randn(batch, 16, 2)}


def _past_and_future(batch: int) -> dict[str, Any]:
    return {
        "past_values": torch.randn(batch, 16),
        "past_time_features": torch.randn(batch, 16, 1),
        "past_observed_mask": torch.ones(batch, 16),
        "future_values": torch.randn(batch, 4),
        "future_time_features": torch.randn(batch, 4, 1),
    }


def hears(name: str, head: str = "", inputs: Any = _sound, **rest: Any) -> Architecture:
    """Describe a model of sound."""
    return described(name, "audio", head or f"{name}Model", inputs, rest)


def foresees(name: str, head: str, inputs: Any, **rest: Any) -> Architecture:
    """Describe a model of series of numbers."""
    return described(name, "time series", head, inputs, rest)


_CONVOLVED = {
    "conv_dim": (8, 8, 8),
    "conv_kernel": (10, 3, 2),
    "conv_stride": (5, 4, 2),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "feat_proj_dropout": 0.0,
    "feat_extract_norm": "group",
}
_FORECAST = {
    "prediction_length": 4,
    "context_length": 10,
    "lags_sequence": [1, 2, 6],
    "num_time_features": 1,
    "input_size": 1,
}

SOUND: tuple[Architecture, ...] = (
    hears("Wav2Vec2", **_CONVOLVED, backward=True, dynamic=True, exported=True),
    hears("Hubert", **_CONVOLVED),
    hears("WavLM", **_CONVOLVED),
    hears("UniSpeech", **_CONVOLVED),
    hears("Wav2Vec2Conformer", **_CONVOLVED),
    hears("SEW", **_CONVOLVED, squeeze_factor=2),
    hears(
        "Whisper",
        "WhisperForConditionalGeneration",
        _whispered,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=16,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        backward=True,
        dynamic=True,
        exported=True,
    ),
    hears(
        "Speech2Text",
        "Speech2TextForConditionalGeneration",
        lambda batch: {
            "input_features": torch.randn(batch, 32, 8),
            "decoder_input_ids": ids(batch, 4),
        },
        input_feat_per_channel=8,
        input_channels=1,
        conv_channels=16,
        max_source_positions=64,
        max_target_positions=32,
    ),
    hears(
        "AST",
        "ASTModel",
        _spectrum,
        max_length=32,
        num_mel_bins=16,
        frequency_stride=8,
        time_stride=8,
    ),
    hears(
        "Encodec",
        "EncodecModel",
        lambda batch: {"input_values": torch.randn(batch, 1, 640)},
        num_filters=4,
        hidden_size=16,
        codebook_size=16,
        codebook_dim=16,
        num_lstm_layers=1,
        upsampling_ratios=[4, 2],
    ),
    hears(
        "Clap",
        "ClapModel",
        lambda batch: {"input_ids": ids(batch), "input_features": torch.randn(batch, 1, 64, 16)},
        text_config=SMALL_TEXT,
        audio_config={
            "num_mel_bins": 16,
            "spec_size": 32,
            "patch_size": 4,
            "patch_stride": [4, 4],
            "window_size": 2,
            "hidden_size": 32,
            "depths": [1, 1],
            "num_attention_heads": [2, 2],
            "patch_embeds_hidden_size": 16,
            "num_hidden_layers": 2,
        },
    ),
    hears("MusicgenDecoder", "MusicgenForCausalLM", lambda batch: {"input_ids": ids(batch * 4)}),
)

SERIES: tuple[Architecture, ...] = (
    foresees(
        "PatchTST",
        "PatchTSTForPrediction",
        _past,
        num_input_channels=2,
        context_length=16,
        patch_length=4,
        patch_stride=4,
        prediction_length=4,
        num_parallel_samples=1,
    ),
    foresees(
        "PatchTSMixer",
        "PatchTSMixerForPrediction",
        _past,
        num_input_channels=2,
        context_length=16,
        patch_length=4,
        patch_stride=4,
        prediction_length=4,
    ),
    foresees(
        "TimeSeriesTransformer", "TimeSeriesTransformerForPrediction", _past_and_future, **_FORECAST
    ),
    foresees("Informer", "InformerForPrediction", _past_and_future, **_FORECAST),
    foresees(
        "Autoformer",
        "AutoformerForPrediction",
        _past_and_future,
        **_FORECAST | {"label_length": 2, "moving_average": 3},
    ),
)
