"""Devices and layouts: what a buffer name denotes, besides its storage."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Final

from wrapper_ir.devices import DeviceKind, kind_of
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.expr import Dim, dim, dims, free_symbols, product


@dataclass(frozen=True, slots=True)
class Device:
    """A device: type and, where it matters, index."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Device:
        """The device spelled as torch spells it: ``cpu``, ``cuda:1``.

        Raises:
            ValueError: the index is not a number.
        """
        kind, _, index = text.partition(":")
        return cls(kind, int(index) if index else None)

    @property
    def kind(self) -> DeviceKind:
        """The kind of its type: memory, languages of kernels, names in emitted code."""
        return kind_of(self.type)


CPU: Final = Device("cpu")
"""The host."""


class LayoutKind(enum.Enum):
    """Kind of a tensor's layout, by torch's name for it."""

    STRIDED = "strided"
    SPARSE_COO = "sparse_coo"
    SPARSE_CSR = "sparse_csr"
    SPARSE_CSC = "sparse_csc"
    SPARSE_BSR = "sparse_bsr"
    SPARSE_BSC = "sparse_bsc"


@dataclass(frozen=True, slots=True)
class Layout:
    """Type, device, size, stride and storage offset of a view; counts are in elements of ``dtype``.

    ``offset`` counts from the first element of the *storage's owner* (the definition that allocated
    it, or the first element of an input or
    constant), so a layout says by itself which part of its storage a view covers. Ownership is not
    part of a layout: it is in the defining
    line. Immutable; expressions are canonical (see :mod:`wrapper_ir.lines.expr`).

    A layout of another ``kind`` than strided has no elements at strides: library ops make such
    buffers and take them, and nothing else looks inside.
    """

    dtype: DType
    device: Device
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    offset: Dim = 0
    kind: LayoutKind = LayoutKind.STRIDED
    _symbols: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)
    """Kept once looked for: every pass asks it of every line."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", dims(self.size))
        object.__setattr__(self, "stride", dims(self.stride))
        object.__setattr__(self, "offset", dim(self.offset))

    @classmethod
    def contiguous(cls, dtype: DType, size: Any, device: Device = CPU) -> Layout:
        """A row-major layout without gaps."""
        return cls(dtype, device, size, contiguous_strides(dims(size)))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.size)

    @property
    def is_contiguous(self) -> bool:
        """True if the strides are the row-major ones."""
        return self.stride == contiguous_strides(self.size)

    @property
    def is_static(self) -> bool:
        """True if size, stride and offset are all known numbers."""
        return not self.symbols

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols that size, stride and offset mention."""
        found = self._symbols
        if found is None:
            values = (*self.size, *self.stride, self.offset)
            found = frozenset().union(*(free_symbols(v) for v in values if type(v) is not int))
            object.__setattr__(self, "_symbols", found)
        return found

    @property
    def numel(self) -> Dim:
        """Number of elements."""
        return product(self.size)

    @property
    def extent(self) -> Dim:
        """Elements from the first to the last one inclusive, gaps counted.

        0 when a size is known to be 0.

        For symbolic sizes the expression is the extent *where no size is zero*; it is never less
        than the true extent then.
        """
        if 0 in self.size:
            return 0
        total: Dim = 1
        for size, stride in zip(self.size, self.stride, strict=True):
            if size != 1:
                total = total + (size - 1) * stride
        return dim(total)

    @property
    def nbytes(self) -> Dim:
        """Bytes that the view spans, ``extent`` times the item size."""
        return dim(self.extent * self.dtype.itemsize)


def contiguous_strides(size: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Row-major strides in elements; a zero size counts as one, as in torch."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(size):
        strides.append(step)
        step = step if extent == 0 else dim(step * extent)
    return tuple(reversed(strides))
