"""Models of pictures and film."""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.toys import RESNET, VOCABULARY, Architecture, described, ids, image

__all__ = ["VISION"]


def _pixels(batch: int) -> dict[str, Any]:
    return {"pixel_values": image(batch)}


def _large(batch: int) -> dict[str, Any]:
    return {"pixel_values": image(batch, 64)}


def _film(batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 2, 3, 32, 32)}


def sees(name: str, head: str = "", inputs: Any = _pixels, **rest: Any) -> Architecture:
    """Describe a model of pictures."""
    return described(name, "vision", head or f"{name}Model", inputs, rest)


VISION: tuple[Architecture, ...] = (
    sees("ViT", backward=True, dynamic=True, exported=True),
    sees("DeiT"),
    sees("Beit"),
    sees("Dinov2", exported=True),
    sees(
        "ViTMAE",
        head="ViTMAEForPreTraining",
        decoder_hidden_size=16,
        decoder_num_attention_heads=2,
        decoder_num_hidden_layers=1,
        decoder_intermediate_size=32,
    ),
    sees(
        "Swin",
        depths=[1, 1],
        num_heads=[2, 2],
        embed_dim=16,
        window_size=2,
        patch_size=4,
        backward=True,
        dynamic=True,
        exported=True,
    ),
    sees("Swinv2", depths=[1, 1], num_heads=[2, 2], embed_dim=16, window_size=2, patch_size=4),
    sees(
        "Swin2SR",
        head="Swin2SRForImageSuperResolution",
        depths=[1],
        num_heads=[2],
        embed_dim=16,
        window_size=4,
        patch_size=1,
        image_size=16,
        inputs=lambda batch: {"pixel_values": image(batch, 16)},
    ),
    sees(
        "ConvNext",
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_stages=2,
        patch_size=4,
        dynamic=True,
        exported=True,
    ),
    sees(
        "ConvNextV2",
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_stages=2,
        patch_size=4,
        head="ConvNextV2Model",
    ),
    sees(
        "ResNet",
        head="ResNetForImageClassification",
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        backward=True,
        dynamic=True,
        exported=True,
    ),
    sees("RegNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8),
    sees("MobileNetV2", depth_multiplier=0.25, image_size=32, inputs=_pixels),
    sees(
        "MobileViT",
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32],
        inputs=_large,
        image_size=64,
        patch_size=2,
    ),
    sees("EfficientNet", width_coefficient=0.1, depth_coefficient=0.1, hidden_dim=128),
    sees(
        "Segformer",
        head="SegformerForSemanticSegmentation",
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        num_attention_heads=[1, 2],
        patch_sizes=[7, 3],
        strides=[4, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        backward=True,
    ),
    sees(
        "Pvt",
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 16, 16, 32],
        num_attention_heads=[1, 2, 2, 2],
        image_size=64,
        patch_sizes=[4, 2, 2, 2],
        sequence_reduction_ratios=[4, 2, 1, 1],
        mlp_ratios=[2, 2, 2, 2],
        inputs=_large,
    ),
    sees("Cvt", embed_dim=[8, 16, 16], num_heads=[1, 2, 2], depth=[1, 2, 3], patch_sizes=[7, 3, 3]),
    sees(
        "Levit",
        hidden_sizes=[16, 24, 32],
        num_attention_heads=[2, 2, 2],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        image_size=64,
        inputs=_large,
        patch_size=16,
    ),
    sees("PoolFormer", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    sees(
        "FocalNet",
        embed_dim=16,
        depths=[1, 1],
        focal_levels=[1, 1],
        focal_windows=[3, 3],
        hidden_sizes=[16, 32],
        patch_size=4,
    ),
    sees(
        "Hiera",
        embed_dim=16,
        depths=[1, 1],
        num_heads=[1, 2],
        image_size=[32, 32],
        patch_kernel=[7, 7],
        patch_stride=[4, 4],
        patch_padding=[3, 3],
        query_stride=[2, 2],
        masked_unit_size=[4, 4],
        num_query_pool=1,
        patch_size=[7, 7],
    ),
    sees(
        "DPT",
        head="DPTForDepthEstimation",
        num_hidden_layers=4,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        is_hybrid=False,
    ),
    sees(
        "Detr",
        head="DetrForObjectDetection",
        inputs=_large,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=RESNET,
        num_queries=5,
    ),
    sees(
        "ConditionalDetr",
        head="ConditionalDetrForObjectDetection",
        inputs=_large,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=RESNET,
        num_queries=5,
    ),
    sees(
        "DeformableDetr",
        head="DeformableDetrForObjectDetection",
        inputs=_large,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=RESNET | {"out_features": ["stage2", "stage3", "stage4"]},
        num_queries=5,
        num_feature_levels=3,
        decoder_layers=2,
    ),
    sees("Yolos", image_size=[32, 32], num_detection_tokens=4, head="YolosForObjectDetection"),
    sees(
        "Sam",
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
            "output_channels": 16,
            "window_size": 2,
            "global_attn_indexes": [1],
            "mlp_dim": 32,
            "num_pos_feats": 8,
        },
        prompt_encoder_config={
            "hidden_size": 16,
            "image_size": 64,
            "patch_size": 16,
            "image_embedding_size": 4,
            "mask_input_channels": 4,
        },
        mask_decoder_config={
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "mlp_dim": 32,
            "iou_head_hidden_dim": 16,
            "attention_downsample_rate": 1,
        },
        inputs=lambda batch: {
            "pixel_values": image(batch, 64),
            "input_points": torch.rand(batch, 1, 1, 2) * 64,
        },
    ),
    sees("VideoMAE", num_frames=2, tubelet_size=2, inputs=_film),
    sees("Timesformer", num_frames=2, inputs=_film),
    sees("Vivit", num_frames=2, tubelet_size=[2, 8, 8], inputs=_film),
    sees(
        "ImageGPT",
        n_positions=32,
        vocab_size=VOCABULARY,
        inputs=lambda batch: {"input_ids": ids(batch)},
    ),
    sees(
        "UperNet",
        head="UperNetForSemanticSegmentation",
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=RESNET | {"out_features": ["stage1", "stage2", "stage3", "stage4"]},
        hidden_size=16,
        pool_scales=[1, 2],
        use_auxiliary_head=False,
        inputs=_large,
    ),
)
