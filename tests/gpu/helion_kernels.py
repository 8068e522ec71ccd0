"""A kernel in Helion, whose package need not be there."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

helion: Any = importlib.import_module("helion")
hl: Any = importlib.import_module("helion.language")


@helion.kernel(config=helion.Config(block_sizes=[32, 32]), static_shapes=True)
def added(x: Tensor, y: Tensor) -> Tensor:
    """The sum of two matrices."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] + y[tile]
    return out
