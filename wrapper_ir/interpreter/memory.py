"""Memory that detects misuse, and the interpreter's errors."""

from __future__ import annotations

import enum
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime.views import reinterpret_as

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BrokenPromiseError", "CallFailedError", "DeadBufferError", "LeakError"]
__all__ += ["MissingValueError", "OutOfBoundsError", "RedZoneError", "StrayWriteError"]
__all__ += ["SymbolValueError", "UndefinedBufferError", "WrongEndError"]

# Errors of the interpreter. Each carries the line's path and origin.


class UndefinedBufferError(WrapperIRError):
    """A line names a buffer that does not exist. Field: ``name``."""

    code = "WIR2401"
    template = "%{name} is not defined here"


class DeadBufferError(WrapperIRError):
    """A line uses a buffer whose storage has ended. Fields: ``name`` and ``why``."""

    code = "WIR2402"
    template = "%{name} is used, but its storage {why}"


class WrongEndError(WrapperIRError):
    """A line ends or takes storage that it may not end. Fields: ``name`` and ``why``."""

    code = "WIR2403"
    template = "the storage of %{name} cannot end here: {why}"


class LeakError(WrapperIRError):
    """Storage of a planned program was never ended. Field: ``names``."""

    code = "WIR2404"
    template = "never freed, reused or returned: {names}"


class OutOfBoundsError(WrapperIRError):
    """A view, slice or reuse does not fit. Fields: ``name`` and ``why``."""

    code = "WIR2405"
    template = "%{name} does not fit: {why}"


class StrayWriteError(WrapperIRError):
    """A call changed bytes that it may not write.

    Fields: ``call``, the ``count`` of bytes, the buffer's ``name``, the first byte ``at``.
    """

    code = "WIR2406"
    template = (
        "'{call}' changed {count} bytes behind %{name} that it may not write, the first at {at}"
    )


class RedZoneError(WrapperIRError):
    """A call wrote outside a storage. Fields: ``call``, ``name`` and ``where``."""

    code = "WIR2407"
    template = "'{call}' wrote outside the storage of %{name}: {where}"


class BrokenPromiseError(WrapperIRError):
    """A call did not do what its line states. Fields: ``call`` and ``what``."""

    code = "WIR2408"
    template = "'{call}' does not do what the program says: {what}"


class SymbolValueError(WrapperIRError):
    """A number cannot be computed or is outside its range. Field: ``what``."""

    code = "WIR2409"
    template = "{what}"


class CallFailedError(WrapperIRError, RuntimeError):
    """A kernel or library op raised. Fields: ``call`` and ``reason``."""

    code = "WIR2410"
    template = "'{call}' failed: {reason}"


class MissingValueError(WrapperIRError):
    """The program to run has constants without values. Field: ``names``."""

    code = "WIR2411"
    template = "there are no values for the constants {names}"
    default_hint = "give them in Program.data, or load the program with the file that holds them"


# Memory that detects misuse.
#
# Each storage that the interpreter allocates lies between two red zones. New storage, ended storage
# and the red zones are filled with a pattern, by default :data:`POISON`, which is NaN in every
# floating-point type of two or more bytes and a conspicuous number in every other type. Reads of
# such memory show up in the results, and writes show up in the pattern.

POISON: Final = b"\xa5\xff"

pattern: Final = ContextVar("pattern", default=POISON)
"""The fill pattern. Two runs with different patterns tell whether a program reads any of it."""

_ALIGNMENT: Final = 64
"""Alignment that kernels may rely on, in bytes. Torch's own allocations have it."""

_RED_ZONE: Final = 256
"""Bytes on either side: room for several vectors, and a multiple of the alignment."""


class Block:
    """Memory of one storage, between red zones.

    ``allocator`` is that of its memory space, called with ``(size, stride, dtype)``; None for the
    usual memory. ``start`` is where the storage begins in the memory behind ``bytes``, which may
    include the zones.
    """

    def __init__(
        self, nbytes: int, device: torch.device, allocator: Callable[..., Tensor] | None = None
    ) -> None:
        total = nbytes + 2 * _RED_ZONE + _ALIGNMENT
        self._pattern = pattern.get()
        self._raw = bytearray(self._pattern * (-(-total // 2)))
        whole = torch.frombuffer(self._raw, dtype=torch.uint8)
        self._away = None if device.type == "cpu" else whole.to(device)
        if allocator is not None:
            self._away = allocator(tuple(whole.size()), (1,), whole.dtype).copy_(whole)
        address = (whole if self._away is None else self._away).data_ptr()
        self._start = _RED_ZONE + -address % _ALIGNMENT
        self._end = self._start + nbytes
        self.start: int = 0
        self.bytes: torch.Tensor
        if self._away is not None:
            self.start, self.bytes = self._start, self._away[self._start : self._end]
        elif nbytes:
            at = self._start
            self.bytes = torch.frombuffer(self._raw, dtype=torch.uint8, count=nbytes, offset=at)
        else:
            self.bytes = torch.empty(0, dtype=torch.uint8)
        self.is_dead = False

    def damage(self) -> str:
        """Describe a forbidden write; empty if there is none."""
        if self._away is not None:
            self._raw = bytearray(self._away.cpu().numpy())
        before = self._first_difference(0, self._start, from_end=True)
        if before is not None:
            return f"byte {self._start - before} before its start"
        after = self._first_difference(self._end, len(self._raw))
        if after is not None:
            return f"byte {after - self._end + 1} after its end"
        if self.is_dead and self._first_difference(self._start, self._end) is not None:
            return "it has ended"
        return ""

    def _first_difference(self, start: int, end: int, *, from_end: bool = False) -> int | None:
        """Return the index of the first byte (or last, ``from_end``) that breaks the pattern."""
        raw = self._raw
        wanted = (self._pattern * ((end - start) // 2 + 2))[start % 2 : start % 2 + end - start]
        if raw[start:end] == wanted:
            return None
        changed = [start + n for n in range(end - start) if raw[start + n] != wanted[n]]
        return changed[-1 if from_end else 0]


class Kind(enum.Enum):
    """Source of a storage."""

    OWNED = "owned"
    INPUT = "an input"
    CONSTANT = "a constant"


@dataclass(eq=False)
class Storage:
    """A piece of memory that begins and ends as a whole."""

    owner: str  # the name that defined it
    kind: Kind
    tensor: Tensor  # on the memory; views are made from it
    start: int  # in that memory, in bytes
    nbytes: int
    block: Block | None = None  # the memory, if the interpreter allocated it
    writable: bool = True
    is_pool: bool = False
    pool: Storage | None = None  # that it is a slice of
    slices: list[Storage] = field(default_factory=list)  # those of a pool that are alive
    end: str = ""  # a description; empty while it is alive
    is_held: bool = False  # an object may hold it, so its contents outlive its end
    # It has ended in a region that it was donated to: a free of the caller's name does nothing.
    is_given_up: bool = False
    place: object = None  # the path of the line that made it
    is_object: bool = False  # a C++ object or an opaque layout: neither copied nor overwritten

    @property
    def whole_end(self) -> str:
        """A description of its end, or of that of the pool around it; empty while both live."""
        return self.end or (self.pool.end if self.pool is not None else "")

    def holds(self, tensor: Tensor) -> bool:
        """Return True if a tensor lies in this memory."""
        return memory_of(tensor) == memory_of(self.tensor)

    def heir(self, owner: str) -> Storage:
        """Return the same memory under another owner."""
        heir = Storage(owner, Kind.OWNED, self.tensor, self.start, self.nbytes, self.block)
        heir.pool, heir.is_object = self.pool, self.is_object
        if self.pool is not None:
            self.pool.slices[self.pool.slices.index(self)] = heir
        return heir


def memory_of(tensor: Tensor) -> int:
    """Return the address that identifies a tensor's memory; 0 if it has none."""
    return 0 if is_bare(tensor) else int(tensor.untyped_storage().data_ptr())


def is_bare(tensor: Tensor) -> bool:
    """Return True if a tensor has elements but no memory, like a gradient of zeros."""
    return tensor.layout is torch.strided and tensor.numel() > 0 and tensor.data_ptr() == 0


def all_bytes(tensor: Tensor) -> Tensor:
    """Return the whole memory behind a tensor as bytes."""
    nbytes = tensor.untyped_storage().nbytes()
    return from_start(tensor, torch.uint8, (nbytes,), (1,), 0)


def poison(storage: Storage) -> None:
    """Fill a storage with the pattern, unless it holds an object."""
    if storage.is_object:
        return
    start, nbytes = storage.start, storage.nbytes
    if nbytes:
        text = pattern.get() * (nbytes // 2 + 1)
        filling = torch.frombuffer(bytearray(text), dtype=torch.uint8)[start % 2 :][:nbytes]
        all_bytes(storage.tensor)[start : start + nbytes].copy_(filling)
    if storage.block is not None:
        storage.block.is_dead = bool(storage.end) and storage.pool is None


def view(held: Storage, dtype: torch.dtype, size: list[int], stride: list[int], at: int) -> Tensor:
    """Return a tensor on a storage, ``at`` bytes from its start."""
    start = (held.start + at) // dtype.itemsize * dtype.itemsize
    return from_start(held.tensor, dtype, size, stride, start)


def from_start(
    tensor: Tensor, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], start: int
) -> Tensor:
    """Return a tensor ``start`` bytes from the beginning of another one's memory, as stored."""
    tensor = _as_stored(tensor)
    own = int(tensor.storage_offset()) * tensor.element_size()
    return reinterpret_as(tensor, dtype, tuple(size), tuple(stride), start - own)


def read_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a tensor that conjugates and negates its memory if another one does."""
    if other.is_conj() and tensor.is_complex():
        tensor = tensor.conj()
    return _negated(tensor) if other.is_neg() else tensor


def _as_stored(tensor: Tensor) -> Tensor:
    """Return a view that neither conjugates nor negates its memory."""
    if tensor.is_conj():
        tensor = tensor.conj()
    return _negated(tensor) if tensor.is_neg() else tensor


def _negated(tensor: Tensor) -> Tensor:
    """Return a view that negates, or no longer does."""
    made: Tensor = torch.ops.aten._neg_view.default(tensor)  # noqa: SLF001 - has no public name
    return made
