"""Arenas on a GPU that outlive a call.

What is saved there is the host's time: one tensor is made instead of many, and views of fixed shape
are made once. The GPU is still busy with an arena when the call has returned; the next call may use
it all the same if it is on the same stream, where it comes later. So each stream has arenas of its
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.runtime._private_cuda import current_stream
from wrapper_ir.runtime.kept import Arena, Keeper
from wrapper_ir.runtime.living import register

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KeptGpuArena"]

_STREAMS: Final = 32
"""For how many streams arenas are kept: as many as PyTorch has of its own on a GPU. Others come and
go, and nobody says when."""


class KeptGpuArena(Keeper):
    """A place on a GPU for buffers that never leave a call, kept for the next call on its stream.

    Args:
        device: The GPU.
        nbytes: Its size; ``None`` where each call says what it needs.
        *views: Of a place of fixed size: dtype, size, stride and place in bytes of each buffer.

    A call takes an arena for itself and gives it back, so calls in several threads, or one inside
    another, never share memory. A call that is being captured as a CUDA graph gets a new one, which
    is never given to another: the graph's replays will use it whenever they come.
    """

    def __init__(
        self,
        device: torch.device,
        nbytes: int | None = None,
        *views: tuple[torch.dtype, Sequence[int], Sequence[int], int],
    ) -> None:
        self._device, self._index = device, device.index or 0
        self._nbytes = nbytes
        self._views = views
        self._free: dict[int, list[Arena]] = {}
        self._is_alone = torch.cuda.device_count() < 2
        register(self)

    def take(self, nbytes: int = 0) -> Arena:
        """Return an arena with undefined contents, of so many bytes at least if that varies."""
        size = nbytes if self._nbytes is None else self._nbytes
        if self._is_captured():
            return Arena.make(size, self._views, self._device)
        free = self._of_stream(current_stream(self._index))
        try:
            arena = free.pop()  # atomic: no two threads get the same one
        except IndexError:
            arena = Arena.make(size, self._views, self._device)
        else:
            if arena.memory.numel() < size:
                del arena  # before the larger one is there
                arena = Arena.make(size, self._views, self._device)
        arena.home = free
        return arena

    def _is_captured(self) -> bool:
        if self._is_alone:
            return torch.cuda.is_current_stream_capturing()
        with torch.cuda.device(self._index):
            return torch.cuda.is_current_stream_capturing()

    def _of_stream(self, stream: int) -> list[Arena]:
        found = self._free.get(stream)
        if found is None:
            if len(self._free) >= _STREAMS:
                self._free.pop(next(iter(tuple(self._free))), None)  # what came first
            found = self._free.setdefault(stream, [])
        return found

    def release(self) -> int:
        """Free what no call uses now, have calls in progress free what they use; return bytes.

        PyTorch's allocator has it then; it gives the memory to others when the stream is done.
        """
        free, self._free = self._free, {}
        return sum(arena.memory.numel() for arenas in free.values() for arena in arenas)
