"""Arenas that outlive a call, and what is common to all memory that is kept between calls.

Fresh memory is expensive on a CPU: each page of 4 KiB that is touched for the first time costs a
trip into the kernel. An arena that stays has been touched by the calls before.
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

#: Arenas from here on are advised for huge pages: below, the first and the last part of the memory,
#: which belong to no whole huge page, are most of it.
_LARGE: Final = 2 * _HUGE_PAGE

_MADV_HUGEPAGE: Final = 14


class Arena(tuple[Tensor, ...]):
    """An arena that one call has for itself: a tuple of views of it, the same in every call."""

    memory: Tensor
    """Its bytes."""
    home: list[Arena] | None
    """While a call has it: where it goes back to."""
    _typed: dict[torch.dtype, Tensor]

    @classmethod
    def make(
        cls,
        nbytes: int,
        views: Sequence[tuple[torch.dtype, Sequence[int], Sequence[int], int]] = (),
        device: torch.device | None = None,
    ) -> Arena:
        """Allocate an arena, and make its views: dtype, size, stride, place in bytes of each.

        It is on the CPU unless a device is given.
        """
        # Not inference tensors, even if this call is in inference mode: the next may not be.
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
        """Return a tensor to make views of ``dtype`` from; it begins where the arena does."""
        found = self._typed.get(dtype)
        if found is None:
            with torch.inference_mode(mode=False):
                found = self._typed[dtype] = reinterpret_as(self.memory, dtype, (0,), (1,), 0)
        return found


class Keeper:
    """Owner that arenas return to; each arena knows the list that it came from."""

    def give(self, arena: Arena) -> None:
        """Take an arena back, unless what is kept was released since it was taken."""
        home, arena.home = arena.home, None
        if home is not None:
            home.append(arena)  # after a release this is a list that nobody looks at any more


class KeptArena(Keeper):
    """A place for buffers that never leave a call, kept for the next call.

    Args:
        nbytes: Its size; ``None`` where each call says what it needs.
        *views: Of a place of fixed size: dtype, size, stride and place in bytes of each buffer.

    A call takes an arena for itself and gives it back, so calls in several threads, or one inside
    another, never share memory. As many are kept as have been taken at once. A call that fails
    gives nothing back.
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
        """Return an arena with undefined contents, of so many bytes at least if that varies."""
        free = self._free
        try:
            arena = free.pop()  # atomic: no two threads get the same one
        except IndexError:
            arena = Arena.make(nbytes if self._nbytes is None else self._nbytes, self._views)
        else:
            if self._nbytes is None and arena.memory.numel() < nbytes:
                del arena  # before the larger one is there
                arena = Arena.make(nbytes)
        arena.home = free
        return arena

    def release(self) -> int:
        """Free what no call uses now, have calls in progress free what they use; return bytes."""
        free, self._free = self._free, []
        return sum(arena.memory.numel() for arena in free)


@functools.cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """The C library's function; none where there is none, or no huge pages to ask for."""
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
    """Ask the system to back the whole huge pages inside a tensor's memory by such; it may not."""
    madvise = _madvise()
    if madvise is None:
        return
    start = -(-memory.data_ptr() // _HUGE_PAGE) * _HUGE_PAGE
    end = (memory.data_ptr() + memory.nbytes) // _HUGE_PAGE * _HUGE_PAGE
    if start < end:
        madvise(start, end - start, _MADV_HUGEPAGE)


# Memory that a program uses inside a call only, kept for the next call.


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
