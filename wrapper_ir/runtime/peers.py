"""Memory that the peers of a process group address.

All ranks of a group have to meet before they can address an allocation of one another, which takes
milliseconds and cannot be done while a CUDA graph is captured. Memory is therefore kept: the ranks
meet in the first call, and every later call of theirs finds memory that they know. For that they
have to run the same programs in the same order, as for any collective.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.devices import kind_of
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import storage_use_count
from wrapper_ir.runtime._private_cuda import is_capturing
from wrapper_ir.runtime.apart import elements
from wrapper_ir.runtime.devices import current_device
from wrapper_ir.runtime.living import register
from wrapper_ir.runtime.views import reinterpret_as

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


class UnknownToPeersError(WrapperIRError, RuntimeError):
    """A call that is captured needs memory that its peers do not know yet.

    Fields: ``nbytes``.
    """

    code = "WIR2168"
    template = "the ranks cannot meet for {nbytes} bytes of symmetric memory during a capture"
    default_hint = "run the program once, with the same sizes, before it is captured"


class _Block:
    """One allocation."""

    __slots__ = ("_storage", "_unused", "memory")

    def __init__(self, nbytes: int, device: torch.device) -> None:
        # Its tensors are never inference tensors: this call may be in that mode and the next not.
        with torch.inference_mode(mode=False):
            self.memory = _allocate(nbytes, device)
            self._storage = self.memory.untyped_storage()
        self._unused = storage_use_count(self._storage)

    @property
    def nbytes(self) -> int:
        return self.memory.numel()

    @property
    def is_idle(self) -> bool:
        """True if nobody else has a tensor of this memory."""
        return storage_use_count(self._storage) == self._unused


class PeerMemory:
    """Memory that peers address, for one buffer of a program, kept from call to call.

    Args:
        device: The device that it is on.

    A call gets memory that nobody holds any more: that of earlier calls on its stream, which orders
    their work. A captured call gets memory that an earlier call has used, on whichever stream, and
    no other call ever gets it, because replays use it at any time; only other captured calls may,
    if there is none left for them. It is thread-safe.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._given = torch.device(device)
        self._device = current_device(device)
        self._blocks: dict[int, list[_Block]] = {}
        self._captured: list[_Block] = []
        self._changing = threading.Lock()
        register(self)

    def __reduce__(self) -> tuple[type[PeerMemory], tuple[torch.device]]:
        """Make a copy that begins with no memory, perhaps of a rank with another current device."""
        return PeerMemory, (self._given,)

    def empty_strided(
        self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> Tensor:
        """Return a tensor with undefined contents, at the start of an allocation.

        Raises:
            UnknownToPeersError: The call is captured, and no call before it had as much memory.
        """
        nbytes = elements(size, stride) * dtype.itemsize
        with self._changing:
            memory = self._take(nbytes)
            return reinterpret_as(memory, dtype, tuple(size), tuple(stride), 0)

    def _take(self, nbytes: int) -> Tensor:
        if is_capturing():
            return self._for_capture(nbytes)
        blocks = self._blocks.setdefault(_stream(self._device), [])
        for position, block in enumerate(blocks):
            if block.is_idle:
                if block.nbytes >= nbytes:
                    return block.memory
                del blocks[position], block  # before the larger one is allocated
                break
        blocks.append(_Block(nbytes, self._device))
        return blocks[-1].memory

    def _for_capture(self, nbytes: int) -> Tensor:
        for blocks in self._blocks.values():
            for position, block in enumerate(blocks):
                if block.is_idle and block.nbytes >= nbytes:
                    del blocks[position]
                    self._captured.append(block)
                    return block.memory
        for block in self._captured:
            if block.is_idle and block.nbytes >= nbytes:
                return block.memory
        raise UnknownToPeersError(nbytes=nbytes)

    def release(self) -> int:
        """Free memory that nobody holds, except that of captured calls; return its bytes.

        The next call allocates again and waits for its peers, so all ranks have to do so.
        """
        freed = 0
        with self._changing:
            for blocks in self._blocks.values():
                used = [block for block in blocks if not block.is_idle]
                freed += sum(block.nbytes for block in blocks if block not in used)
                blocks[:] = used
        return freed


def empty_for_peers(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device | str
) -> Tensor:
    """Return a tensor in new memory that peers can address, with undefined contents.

    The ranks of a group meet for it when an op first uses it.
    """
    nbytes = elements(size, stride) * dtype.itemsize
    memory = _allocate(nbytes, current_device(device))
    return reinterpret_as(memory, dtype, tuple(size), tuple(stride), 0)


#: The least that is allocated: backends have no allocations of nothing.
_LEAST: Final = 16


def _allocate(nbytes: int, device: torch.device) -> Tensor:
    from torch.distributed import _symmetric_memory  # noqa: PLC0415 - slow to import

    return _symmetric_memory.empty(max(nbytes, _LEAST), dtype=torch.uint8, device=device)


def _stream(device: torch.device) -> int:
    """Return what tells the current stream of a device from others of it."""
    if not kind_of(device.type).is_accelerator:
        return 0
    return int(torch.accelerator.current_stream(device).stream_id)
