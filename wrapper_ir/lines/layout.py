"""Element types, devices and layouts: everything about a buffer except its storage."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import Any, Final

import sympy

from wrapper_ir.devices import DeviceKind, kind_of
from wrapper_ir.lines.expr import Dim, dim, dims, free_symbols, product

__all__ = ["CPU", "DTYPE_BY_SHORT_NAME", "DType", "Device", "Layout", "LayoutKind", "OpaqueKind"]
__all__ += ["contiguous_strides"]

# Element types.


class DType(enum.Enum):
    """The type of one element of a buffer.

    A member's name is torch's in upper case (``DType.FLOAT32`` is ``torch.float32``), its value the
    short name in the text form (``f32``).
    """

    FLOAT64 = "f64"
    FLOAT32 = "f32"
    FLOAT16 = "f16"
    BFLOAT16 = "bf16"
    FLOAT8_E4M3FN = "f8e4m3fn"
    FLOAT8_E4M3FNUZ = "f8e4m3fnuz"
    FLOAT8_E5M2 = "f8e5m2"
    FLOAT8_E5M2FNUZ = "f8e5m2fnuz"
    FLOAT8_E8M0FNU = "f8e8m0fnu"
    FLOAT4_E2M1FN_X2 = "f4e2m1fnx2"
    COMPLEX32 = "c32"
    COMPLEX64 = "c64"
    COMPLEX128 = "c128"
    INT64 = "i64"
    INT32 = "i32"
    INT16 = "i16"
    INT8 = "i8"
    UINT64 = "u64"
    UINT32 = "u32"
    UINT16 = "u16"
    UINT8 = "u8"
    BOOL = "bool"
    QINT32 = "qi32"
    QINT8 = "qi8"
    QUINT8 = "qu8"

    @property
    def short(self) -> str:
        """The name in the text form, for example ``f32``."""
        return str(self.value)

    @property
    def torch_name(self) -> str:
        """The attribute of ``torch``, for example ``float32``."""
        return self.name.lower()

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes."""
        return _ITEMSIZE[self]

    @property
    def is_floating(self) -> bool:
        """True if the type is a real floating-point type."""
        return self.name.startswith(("FLOAT", "BFLOAT"))

    @property
    def is_complex(self) -> bool:
        """True if the type is complex."""
        return self.name.startswith("COMPLEX")

    @property
    def is_integral(self) -> bool:
        """True for signed and unsigned integers, but not for bool and quantised types."""
        return self.name.startswith(("INT", "UINT"))

    @classmethod
    def from_torch_name(cls, name: str) -> DType:
        """Return the type that torch calls ``name`` (``"float32"`` or ``"torch.float32"``).

        Raises:
            KeyError: The IR has no such type.
        """
        return cls[name.removeprefix("torch.").upper()]


#: A short name starts with the width in bits; no element takes less than a byte.
_ITEMSIZE: Final[dict[DType, int]] = {
    d: max(1, int("".join(re.findall(r"\d+", d.short)[:1]) or 8) // 8) for d in DType
}

#: The text form's short name of each type.
DTYPE_BY_SHORT_NAME: Final[dict[str, DType]] = {d.short: d for d in DType}


# Devices and layouts.


@dataclass(frozen=True, slots=True)
class Device:
    """A device: a type and an optional index.

    Of a kind of which threads have a current device, the one without an index is the device that is
    current when the program is loaded. Loaded once, the program stays there.
    """

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Device:
        """Parse a device in torch's spelling: ``cpu``, ``cuda:1``.

        Raises:
            ValueError: The index is not a number.
        """
        kind, _, index = text.partition(":")
        return cls(kind, int(index) if index else None)

    @property
    def kind(self) -> DeviceKind:
        """The kind of device: memory, kernel languages, names in emitted code."""
        return kind_of(self.type)


CPU: Final = Device("cpu")
"""The host."""


class LayoutKind(enum.Enum):
    """Kind of a layout, under torch's name."""

    STRIDED = "strided"
    SPARSE_COO = "sparse_coo"
    SPARSE_CSR = "sparse_csr"
    SPARSE_CSC = "sparse_csc"
    SPARSE_BSR = "sparse_bsr"
    SPARSE_BSC = "sparse_bsc"


@dataclass(frozen=True, slots=True)
class OpaqueKind:
    """Kind of a layout that only the device understands, such as padded or tiled.

    Attributes:
        name: An identifier: a key of the device's ``wrapper_ir.devices.Memory.layouts``.

    Raises:
        ValueError: The name is not an identifier.
    """

    name: str

    def __post_init__(self) -> None:
        if not (self.name.isascii() and self.name.isidentifier()):
            raise ValueError(f"{self.name!r} is not an identifier, so it cannot name a layout")

    @property
    def value(self) -> str:
        """The name in the text form and in messages."""
        return f"opaque {self.name}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Type, device, sizes, strides and storage offset of a view, in elements of ``dtype``.

    ``offset`` counts from the first element of the *storage's owner* (an allocation, an input or a
    constant), so a layout alone tells which part of its storage a view covers. Ownership is not
    part of a layout; the defining line states it. Layouts are immutable, and their expressions are
    canonical (see :mod:`wrapper_ir.lines.expr`).

    A ``kind`` other than strided has no strides to address elements by. Only library ops create and
    take such buffers. Opaque ones may also be allocated and passed to kernels in a language of the
    device's vendor.
    """

    dtype: DType
    device: Device
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    offset: Dim = 0
    kind: LayoutKind | OpaqueKind = LayoutKind.STRIDED
    _symbols: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)
    """A cache, since every pass asks for the symbols at every line."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", dims(self.size))
        object.__setattr__(self, "stride", dims(self.stride))
        object.__setattr__(self, "offset", dim(self.offset))

    @classmethod
    def contiguous(cls, dtype: DType, size: Any, device: Device = CPU) -> Layout:
        """Return a dense row-major layout."""
        return cls(dtype, device, size, contiguous_strides(dims(size)))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.size)

    @property
    def is_opaque(self) -> bool:
        """True if only the device understands the layout."""
        return isinstance(self.kind, OpaqueKind)

    @property
    def is_contiguous(self) -> bool:
        """True if the layout is dense and row-major."""
        return self.stride == contiguous_strides(self.size)

    @property
    def is_dense(self) -> bool:
        """True if the layout is dense and row-major for some permutation of its dimensions."""
        left = [pair for pair in zip(self.stride, self.size, strict=True) if pair[1] != 1]
        step: Dim = 1
        while left:
            at = next((pair for pair in left if pair[0] == step), None)
            if at is None or at[1] == 0:
                return False
            left.remove(at)
            step = dim(step * at[1])
        return True

    @property
    def is_static(self) -> bool:
        """True if sizes, strides and offset contain no symbols."""
        return not self.symbols

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols in sizes, strides and offset."""
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
        """Number of elements from the first to the last one, gaps included.

        The extent is 0 if a size is the constant 0. For symbolic sizes it is exact *if no size is
        zero*, and an upper bound otherwise.
        """
        if 0 in self.size:
            return 0
        total: Dim = 1
        for size, stride in zip(self.size, self.stride, strict=True):
            if size != 1:
                total = total + (size - 1) * stride
        return dim(total)

    @property
    def clamped_extent(self) -> Dim:
        """The extent, which is then at least 0 for all values of its symbols."""
        extent = self.extent
        return extent if isinstance(extent, int) else dim(sympy.Max(0, extent))

    @property
    def nbytes(self) -> Dim:
        """Number of bytes that the view spans: ``extent`` times the item size."""
        return dim(self.extent * self.dtype.itemsize)


def contiguous_strides(size: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return row-major strides in elements. A size of zero counts as one, as in torch."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(size):
        strides.append(step)
        step = step if extent == 0 else dim(step * extent)
    return tuple(reversed(strides))
