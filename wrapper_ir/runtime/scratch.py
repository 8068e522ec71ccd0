"""Memory that a program uses inside a call only, kept for the next call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.runtime._private import empty_strided_cpu
from wrapper_ir.runtime.kept import register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["Scratch"]

#: Sets of buffers kept: as many calls can run at once without allocating.
_MOST_KEPT: Final = 4


class Scratch:
    """Buffers that never leave a call, in sets, one set for each call that is running.

    Args:
        *layouts: Size, stride and dtype of each buffer of a set.

    A call takes a set for itself and gives it back when it is done, so calls in several threads, or
    one inside another, never share a buffer. A call that fails gives nothing back.
    """

    def __init__(self, *layouts: tuple[Sequence[int], Sequence[int], torch.dtype]) -> None:
        self._layouts = layouts
        self._sets: list[tuple[Tensor, ...]] = []
        register(self)

    def take(self) -> tuple[Tensor, ...]:
        """Return a set of buffers with undefined contents, to be used by one call."""
        try:
            return self._sets.pop()  # atomic: no two threads get the same one
        except IndexError:
            # Not inference tensors, even if this call is in inference mode: the next may not be.
            with torch.inference_mode(mode=False):
                return tuple(empty_strided_cpu(*layout) for layout in self._layouts)

    def give(self, buffers: tuple[Tensor, ...]) -> None:
        """Take a set back."""
        if len(self._sets) < _MOST_KEPT:
            self._sets.append(buffers)

    def release(self) -> int:
        """Free the sets that no call uses now; return their bytes."""
        sets, self._sets = self._sets, []
        return sum(buffer.untyped_storage().nbytes() for buffers in sets for buffer in buffers)
