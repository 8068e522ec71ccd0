"""Memory kept between calls: arenas and sets of buffers.

Fresh memory is expensive on a CPU: the first touch of each 4 KiB page traps into the kernel. Memory
that is kept has been touched by earlier calls.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from wrapper_ir.runtime._private import empty_strided_cpu
from wrapper_ir.runtime.heap import unserved
from wrapper_ir.runtime.living import register
from wrapper_ir.runtime.views import reinterpret_as

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_HUGE_PAGE: Final = 2 * 1024 * 1024

#: The smallest arena to advise for huge pages. In smaller ones, most memory lies at the ends, which
#: fill no whole huge page.
_LARGE: Final = 2 * _HUGE_PAGE

_MADV_HUGEPAGE: Final = 14


class Arena(tuple[Tensor, ...]):
    """An arena that one call owns, as a tuple of views, which are the same in every call."""

    memory: Tensor
    """Its bytes."""
    home: list[Arena] | None
    """The list that it returns to after the call."""
    _typed: dict[torch.dtype, Tensor]

    @classmethod
    def make(
        cls,
        nbytes: int,
        views: Sequence[tuple[torch.dtype, Sequence[int], Sequence[int], int]] = (),
        device: torch.device | None = None,
    ) -> Arena:
        """Allocate an arena, on the CPU by default, with views of dtype, size, stride, byte offset.

        Its tensors are never inference tensors: this call may be in that mode and the next not.
        """
        with torch.inference_mode(mode=False), unserved():
            if device is not None:
                memory = torch.empty(nbytes, dtype=torch.uint8, device=device)
            else:
                memory = empty_strided_cpu((nbytes,), (1,), torch.uint8)
                if nbytes >= _LARGE:
                    advise_huge_pages(memory)
            arena = cls(reinterpret_as(memory, *view) for view in views)
        arena.memory, arena.home, arena._typed = memory, None, {torch.uint8: memory}
        return arena

    def of(self, dtype: torch.dtype) -> Tensor:
        """Return a tensor at the arena's start from which to make views of ``dtype``."""
        found = self._typed.get(dtype)
        if found is None:
            with torch.inference_mode(mode=False):
                found = self._typed[dtype] = reinterpret_as(self.memory, dtype, (0,), (1,), 0)
        return found


class Keeper:
    """An owner of arenas. Each arena knows the list that it came from."""

    def give(self, arena: Arena) -> None:
        """Take an arena back, unless kept memory was released since it was taken."""
        home, arena.home = arena.home, None
        if home is not None:
            home.append(arena)  # after a release nobody uses this list any more


class KeptArena(Keeper):
    """CPU memory for buffers that never leave a call, kept for the next call.

    Args:
        nbytes: Its size; ``None`` if it varies by call.
        *views: For a fixed size, the dtype, size, stride and byte offset of each buffer.

    Each call takes an arena and gives it back, so concurrent or nested calls never share memory. As
    many are kept as were in use at once. A call that fails gives nothing back.
    """

    def __init__(
        self,
        nbytes: int | None = None,
        *views: tuple[torch.dtype, Sequence[int], Sequence[int], int],
    ) -> None:
        self._nbytes = nbytes
        self._views = views
        self._free: list[Arena] = []
        register(self)

    def take(self, nbytes: int = 0) -> Arena:
        """Return an arena with undefined contents; ``nbytes`` is its least size if it varies."""
        free = self._free
        try:
            arena = free.pop()  # atomic: no two threads get the same one
        except IndexError:
            arena = Arena.make(nbytes if self._nbytes is None else self._nbytes, self._views)
        else:
            if self._nbytes is None and arena.memory.numel() < nbytes:
                del arena  # before the larger one is allocated
                arena = Arena.make(nbytes)
        arena.home = free
        return arena

    def release(self) -> int:
        """Free idle arenas and return their bytes; those in use are freed when their calls end."""
        free, self._free = self._free, []
        return sum(arena.memory.numel() for arena in free)


@functools.cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """Return the C library's ``madvise``; ``None`` outside Linux."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    found.restype = ctypes.c_int
    call: Callable[[int, int, int], int] = found
    return call


def advise_huge_pages(memory: Tensor) -> None:
    """Advise the kernel to use huge pages for a tensor's memory, as far as whole ones fit in."""
    madvise = _madvise()
    if madvise is None:
        return
    start = -(-memory.data_ptr() // _HUGE_PAGE) * _HUGE_PAGE
    end = (memory.data_ptr() + memory.nbytes) // _HUGE_PAGE * _HUGE_PAGE
    if start < end:
        madvise(start, end - start, _MADV_HUGEPAGE)


#: The most sets of buffers kept: the number of concurrent calls that need not allocate.
_MOST_KEPT: Final = 4


class Spare(tuple[Tensor, ...]):
    """A set of buffers that one call owns."""

    home: list[Spare] | None
    """The list that it returns to after the call."""


class Scratch:
    """Sets of buffers that never leave a call, one set for each running call.

    Args:
        *layouts: Size, stride and dtype of each buffer of a set.

    Each call takes a set and gives it back, so concurrent or nested calls never share a buffer. A
    call that fails gives nothing back.
    """

    def __init__(self, *layouts: tuple[Sequence[int], Sequence[int], torch.dtype]) -> None:
        self._layouts = layouts
        self._sets: list[Spare] = []
        register(self)

    def take(self) -> Spare:
        """Return a set of buffers with undefined contents for one call."""
        sets = self._sets
        try:
            spare = sets.pop()  # atomic: no two threads get the same one
        except IndexError:
            # No inference tensors: this call may be in that mode and the next one not.
            with torch.inference_mode(mode=False):
                spare = Spare(empty_strided_cpu(*layout) for layout in self._layouts)
        spare.home = sets
        return spare

    def give(self, spare: Spare) -> None:
        """Take a set back, unless kept memory was released since it was taken."""
        home, spare.home = spare.home, None
        if home is not None and len(home) < _MOST_KEPT:
            home.append(spare)  # after a release nobody uses this list any more

    def release(self) -> int:
        """Free idle sets and return their bytes; those in use are freed when their calls end."""
        sets, self._sets = self._sets, []
        return sum(buffer.untyped_storage().nbytes() for spare in sets for buffer in spare)
