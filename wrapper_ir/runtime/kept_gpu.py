"""Arenas on a GPU that outlive a call.

They save host time: one tensor is created instead of many, and views of fixed shape only once. The
GPU may still use an arena after the call has returned. The next call can reuse it only on the same
stream, which orders their work, so each stream has its own arenas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.runtime._private_cuda import current_stream
from wrapper_ir.runtime.devices import current_device
from wrapper_ir.runtime.kept import Arena, Keeper
from wrapper_ir.runtime.living import register

if TYPE_CHECKING:
    from collections.abc import Sequence

_STREAMS: Final = 32
"""The most streams for which arenas are kept: the size of PyTorch's stream pool on a GPU. Other
streams come and go without notice."""


class KeptGpuArena(Keeper[Arena]):
    """GPU memory for buffers that never leave a call, kept for the next call on its stream.

    Args:
        device: The GPU.
        nbytes: Its size; ``None`` if it varies by call.
        *views: For a fixed size, the dtype, size, stride and byte offset of each buffer.

    Each call takes an arena and gives it back, so concurrent or nested calls never share memory. A
    call that is being captured as a CUDA graph gets a new arena, which no other call ever gets,
    because replays of the graph use it at any time.
    """

    def __init__(
        self,
        device: torch.device,
        nbytes: int | None = None,
        *views: tuple[torch.dtype, Sequence[int], Sequence[int], int],
    ) -> None:
        self._device = current_device(device)
        self._index: int = self._device.index
        self._nbytes = nbytes
        self._views = views
        self._free: dict[int, list[Arena]] = {}
        self._is_alone = torch.cuda.device_count() < 2
        register(self)

    def take(self, nbytes: int = 0) -> Arena:
        """Return an arena with undefined contents; ``nbytes`` is its least size if it varies."""
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
                del arena  # before the larger one is allocated
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
                self._free.pop(next(iter(tuple(self._free))), None)  # the oldest
            found = self._free.setdefault(stream, [])
        return found

    def release(self) -> int:
        """Free idle arenas and return their bytes; those in use are freed when their calls end.

        The memory goes back to PyTorch's allocator, which reuses it in stream order.
        """
        free, self._free = self._free, {}
        return sum(arena.memory.numel() for arenas in free.values() for arena in arenas)
