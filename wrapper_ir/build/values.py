"""Arguments and results of the builder's calls: handles, and the many ways to give a layout."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import sympy

from wrapper_ir.build.errors import ArgumentError, LayoutError
from wrapper_ir.lines import (
    DTYPE_BY_SHORT_NAME,
    Device,
    Dim,
    DType,
    KernelDefinition,
    Layout,
    Relation,
    UnsupportedExprError,
    contiguous_strides,
)
from wrapper_ir.lines.expr import dims

E = TypeVar("E", bound=enum.Enum)

Size: TypeAlias = Sequence[Any]
"""Sizes or strides: integers and expressions over the builder's symbols."""

Number: TypeAlias = bool | int | float | complex | sympy.Basic


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A buffer of the program being built, to be passed to the builder's calls."""

    name: str
    layout: Layout
    owner: object

    @property
    def dtype(self) -> DType:
        """Type of an element."""
        return self.layout.dtype

    @property
    def device(self) -> Device:
        """Device of the storage."""
        return self.layout.device

    @property
    def size(self) -> tuple[Dim, ...]:
        """Sizes, in elements."""
        return self.layout.size

    @property
    def numel(self) -> Dim:
        """Number of elements."""
        return self.layout.numel

    def __repr__(self) -> str:
        return f"<buffer %{self.name}>"


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """An object of a custom class, to be passed to the builder's calls."""

    name: str
    class_name: str
    owner: object

    def __repr__(self) -> str:
        return f"<object &{self.name}>"


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel of the program being built, to be called."""

    definition: KernelDefinition
    owner: object

    def __repr__(self) -> str:
        return f"<kernel @{self.definition.name}>"


LayoutLike: TypeAlias = Layout | Buffer | tuple[DType | str, Size]
"""A layout; a buffer whose dtype, size and device are meant; or dtype and size, row-major."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a call, said in full: where in what the op returns, and how it relates.

    Attributes:
        layout: Of the buffer that is defined, or the symbol that is bound, or the class of the
            object that is made, ``namespace::Class``.
        path: Of the leaf in what is returned; by default its position among the results.
        relation: To the arguments; by default what the schema says.
        name: Of the buffer or the object; by default a fresh one.
    """

    layout: LayoutLike | sympy.Symbol | str
    path: tuple[int | str, ...] | None = None
    relation: Relation | None = None
    name: str | None = None


def dtype_of(value: DType | str) -> DType:
    """The dtype, or the one with this short name (``f32``) or torch's (``float32``).

    Raises:
        LayoutError: there is none.
    """
    if isinstance(value, DType):
        return value
    text = str(value)
    found = DTYPE_BY_SHORT_NAME.get(text)
    if found is not None:
        return found
    try:
        return DType.from_torch_name(text)
    except KeyError:
        raise LayoutError(
            given=value,
            reason="there is no such element type",
            hint=f"element types are {', '.join(sorted(DTYPE_BY_SHORT_NAME))}",
        ) from None


def device_of(value: Device | str) -> Device:
    """The device, or the one that torch spells so (``cuda:1``).

    Raises:
        LayoutError: no device is spelled so.
    """
    if isinstance(value, Device):
        return value
    try:
        found = Device.parse(str(value))
    except ValueError:
        found = None
    if found is None or not found.type.isidentifier():
        hint = "devices are spelled as torch spells them: 'cpu', 'cuda:1'"
        raise LayoutError(given=value, reason="no device is spelled so", hint=hint)
    return found


def choice(kind: type[E], value: object, callee: str) -> E:
    """The member of an enumeration, or the one of that value.

    Args:
        kind: The enumeration.
        value: What a user gave.
        callee: What it was given to, for errors.

    Raises:
        ArgumentError: there is none.
    """
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(repr(member.value) for member in kind)
        raise ArgumentError(callee=callee, reason=f"{value!r} is none of {names}") from None


def size_of(value: Size) -> tuple[Dim, ...]:
    """Sizes, checked.

    Raises:
        LayoutError: they are not integers and expressions.
    """
    given: object = value
    if isinstance(given, (int, sympy.Basic)):
        raise LayoutError(given=given, reason="sizes are a sequence", hint=f"write ({given},)")
    try:
        return dims(value)
    except (TypeError, UnsupportedExprError) as error:
        raise LayoutError(given=value, reason=str(error)) from None


def layout_of(
    value: DType | str | LayoutLike,
    size: Size | None = None,
    stride: Size | None = None,
    device: Device | None = None,
    offset: Dim = 0,
) -> Layout:
    """The layout that a call's arguments say.

    Args:
        value: A layout, a buffer like which it is, dtype and size, or a dtype alone with ``size``.
        size: Sizes, where ``value`` is a dtype.
        stride: Strides in elements; row-major by default.
        device: The device; for a buffer's likeness, its own by default.
        offset: Of a view, in elements from the start of the storage.

    Raises:
        LayoutError: they say none.
    """
    if isinstance(value, Layout):
        if size is not None or stride is not None:
            raise LayoutError(given=value, reason="a layout has its sizes and strides already")
        return value
    if isinstance(value, Buffer):
        device = value.device if device is None else device
        dtype, size = value.dtype, value.size if size is None else size
    elif isinstance(value, tuple) and size is None:
        if len(value) != 2:
            raise LayoutError(given=value, reason="a pair of dtype and sizes is expected")
        dtype, size = dtype_of(value[0]), value[1]
    elif isinstance(value, (DType, str)):
        dtype = dtype_of(value)
    else:
        raise LayoutError(given=value, reason="it is neither a layout, nor a buffer, nor a dtype")
    if size is None:
        raise LayoutError(given=value, reason="its sizes are missing")
    sizes = size_of(size)
    strides = contiguous_strides(sizes) if stride is None else size_of(stride)
    return Layout(dtype, Device("cpu") if device is None else device, sizes, strides, offset)
