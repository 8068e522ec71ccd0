"""The submodules of a graph that keep memory which peers address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn
from typing_extensions import override

from wrapper_ir.runtime.peers import PeerMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor


class PeerBuffer(nn.Module):
    """Memory for one line of a program, kept between calls; see :class:`PeerMemory`.

    A copy of the module has memory of its own.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.memory = PeerMemory(device)

    @override
    def forward(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return a tensor with undefined contents."""
        return self.memory.empty_strided(size, stride, dtype)
