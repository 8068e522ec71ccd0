"""Whether tensors begin at addresses that kernels may load many bytes at a time from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from wrapper_ir.frontends.common.exported import PLAIN

if TYPE_CHECKING:
    from torch import Tensor


def is_misaligned(tensor: Tensor, bytes_: int) -> bool:
    """Return whether a tensor with memory begins at no multiple of so many bytes."""
    if type(tensor) not in PLAIN or tensor.layout != torch.strided:
        return False
    return tensor.data_ptr() % bytes_ != 0
