"""Torch's dtypes, devices and layouts as ours."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from wrapper_ir.frontends.common.expressions import to_dim
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.layout import Device, Layout

__all__ = ["to_device", "to_dtype", "to_layout"]


@cache
def to_dtype(dtype: torch.dtype) -> DType:
    """Return the element type.

    Raises:
        UnsupportedLineError: The IR has no such type.
    """
    try:
        return DType.from_torch_name(str(dtype))
    except KeyError:
        raise UnsupportedLineError(
            kind="element type", text=str(dtype), why="the IR has no such type"
        ) from None


@cache
def to_device(device: torch.device) -> Device:
    """Return the device; a CPU has no index."""
    return Device(device.type, None if device.type == "cpu" else device.index)


def to_layout(source: Any) -> Layout:
    """Return the layout of one of Inductor's layouts, counted from the start of its storage."""
    return Layout(
        to_dtype(source.dtype),
        to_device(source.device),
        tuple(to_dim(size) for size in source.size),
        tuple(to_dim(stride) for stride in source.stride),
        to_dim(source.offset),
    )


def tensor_layout(tensor: torch.Tensor) -> Layout:
    """Return the layout of a real tensor, counted from its first element."""
    like = tensor
    if tensor.is_mkldnn:  # packed by oneDNN or MKL: its own strides say nothing
        like = torch.empty(tensor.size(), dtype=tensor.dtype, device="meta")
    return Layout(
        to_dtype(tensor.dtype),
        to_device(tensor.device),
        tuple(tensor.size()),
        tuple(like.stride()),
    )
