"""Memory that a program uses inside a call only, kept for the next call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from wrapper_ir.runtime._private import empty_strided_cpu
from wrapper_ir.runtime.kept import register

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Scratch", "Spare"]

#: Sets of buffers kept: as many calls can run at once without allocating.
_MOST_KEPT: Final = 4


class Spare(tuple[Tensor, ...]):
    """A set of buffers that one call has for itself."""

    home: list[Spare] | None
    """While a call has it: where it goes back to."""


class Scratch:
    """Buffers that never leave a call, in sets, one set for each call that is running.

    Args:
        *layouts: Size, stride and dtype of each buffer of a set.

    A call takes a set for itself and gives it back when it is done, so calls in several threads, or
    one inside another, never share a buffer. A call that fails gives nothing back.
    """

    def __init__(self, *layouts: tuple[Sequence[int], Sequence[int], torch.dtype]) -> None:
        self._layouts = layouts
        self._sets: list[Spare] = []
        register(self)

    def take(self) -> Spare:
        """Return a set of buffers with undefined contents, to be used by one call."""
        sets = self._sets
        try:
            spare = sets.pop()  # atomic: no two threads get the same one
        except IndexError:
            # Not inference tensors, even if this call is in inference mode: the next may not be.
            with torch.inference_mode(mode=False):
                spare = Spare(empty_strided_cpu(*layout) for layout in self._layouts)
        spare.home = sets
        return spare

    def give(self, spare: Spare) -> None:
        """Take a set back, unless what is kept was released since it was taken."""
        home, spare.home = spare.home, None
        if home is not None and len(home) < _MOST_KEPT:
            home.append(spare)  # after a release this is a list that nobody looks at any more

    def release(self) -> int:
        """Free what no call uses now, have calls in progress free what they use; return bytes."""
        sets, self._sets = self._sets, []
        return sum(buffer.untyped_storage().nbytes() for spare in sets for buffer in spare)
