"""Arguments and results of the builder's calls: handles and layouts.

A handle belongs to the draft of one program. A builder accepts only its own handles.
"""

from __future__ import annotations

import enum
import functools
import linecache
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.build.draft import ProgramDraft
from wrapper_ir.devices import registered
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import dims
from wrapper_ir.lines.schema import CLASS_NAME

__all__ = ["ArgumentError", "Buffer", "BuildError", "ForeignValueError", "IllegalNameError"]
__all__ += ["Kernel", "LayoutError", "NameTakenError", "Object", "Result", "ResultError"]
__all__ += ["UnfinishedError"]

# Mistakes that are detected at the offending call. The verifier finds the rest at the end.


class BuildError(WrapperIRError):
    """Base of the builder's errors."""

    code = "WIR0300"


class NameTakenError(BuildError):
    """A name that is already in use."""

    code = "WIR0301"
    template = "there is already a {what} '{name}'"
    default_hint = "leave the name out to get a fresh one"


class IllegalNameError(BuildError):
    """A name that is not an identifier."""

    code = "WIR0302"
    template = "{name!r} cannot name a {what}"
    default_hint = "names are ASCII letters, digits and underscores, and do not start with a digit"


class ForeignValueError(BuildError):
    """A buffer or kernel that belongs to another builder."""

    code = "WIR0303"
    template = "the {what} '{name}' belongs to another program"


class ArgumentError(BuildError):
    """An argument that the kernel or op does not accept."""

    code = "WIR0304"
    template = "{callee}: {reason}"


class ResultError(BuildError):
    """Results that do not match what the op or region returns."""

    code = "WIR0305"
    template = "{callee}: {reason}"


class LayoutError(BuildError):
    """A value that does not describe a layout."""

    code = "WIR0306"
    template = "{given!r} does not describe a layout: {reason}"


class UnfinishedError(BuildError):
    """A program whose results were never declared, or were declared twice."""

    code = "WIR0307"
    template = "{reason}"


# Handles.

_HERE: Final = str(Path(__file__).parent)

E = TypeVar("E", bound=enum.Enum)
H = TypeVar("H", "Buffer", "Kernel", "Object")

Size: TypeAlias = Sequence[Any]
"""Sizes or strides: integers, and expressions over the builder's symbols."""

Number: TypeAlias = bool | int | float | complex | sympy.Basic


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A handle of a buffer in the program being built."""

    name: str
    layout: ir.Layout
    owner: object

    @property
    def dtype(self) -> ir.DType:
        """Element type."""
        return self.layout.dtype

    @property
    def device(self) -> ir.Device:
        """Device of the storage."""
        return self.layout.device

    @property
    def size(self) -> tuple[ir.Dim, ...]:
        """Sizes, in elements."""
        return self.layout.size

    @property
    def numel(self) -> ir.Dim:
        """Number of elements."""
        return self.layout.numel

    def __repr__(self) -> str:
        return f"<buffer %{self.name}>"


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """A handle of an object of a custom class."""

    name: str
    class_name: str
    owner: object

    def __repr__(self) -> str:
        return f"<object &{self.name}>"


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A handle of a kernel in the program being built."""

    definition: ir.KernelDefinition
    owner: object

    @property
    def name(self) -> str:
        """Name in the program."""
        return self.definition.name

    def __repr__(self) -> str:
        return f"<kernel @{self.definition.name}>"


LayoutLike: TypeAlias = ir.Layout | Buffer | tuple[ir.DType | str, Size]
"""A layout; a buffer to copy dtype, size and device from; or dtype and size, row-major."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a call, spelled out in full.

    Attributes:
        layout: The layout of the new buffer, the symbol to bind, or the class of the new object
            (``namespace::Class``).
        path: The path of the result in the returned value. By default its position.
        relation: The relation to the arguments. By default taken from the schema.
        name: The name of the buffer or object. By default a fresh one.
    """

    layout: LayoutLike | sympy.Symbol | str
    path: tuple[int | str, ...] | None = None
    relation: ir.Relation | None = None
    name: str | None = None


def dtype_of(value: ir.DType | str) -> ir.DType:
    """Return the dtype with this short name (``f32``) or torch name (``float32``)."""
    if isinstance(value, ir.DType):
        return value
    text = str(value)
    try:
        return ir.DTYPE_BY_SHORT_NAME.get(text) or ir.DType.from_torch_name(text)
    except KeyError:
        reason = "there is no such element type"
        hint = f"element types are {', '.join(sorted(ir.DTYPE_BY_SHORT_NAME))}"
        raise LayoutError(given=value, reason=reason, hint=hint) from None


def device_of(value: ir.Device | str) -> ir.Device:
    """Return the device with this torch name (``cuda:1``)."""
    if isinstance(value, ir.Device):
        return value
    try:
        found = ir.Device.parse(str(value))
    except ValueError:
        found = None
    if found is None or not found.type.isidentifier():
        known = (f"'{kind.type}{':1' if kind.has_index else ''}'" for kind in registered())
        hint = f"devices have torch's names: {', '.join(known)}"
        raise LayoutError(given=value, reason="it does not name a device", hint=hint)
    return found


def choice(kind: type[E], value: object, callee: str) -> E:
    """Return the member of an enumeration with this value; ``callee`` is for the message."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(repr(member.value) for member in kind)
        raise ArgumentError(callee=callee, reason=f"{value!r} is not one of {names}") from None


def size_of(value: Size) -> tuple[ir.Dim, ...]:
    """Return sizes as dims."""
    given: object = value
    if isinstance(given, (int, sympy.Basic)):
        raise LayoutError(given=given, reason="sizes must be a sequence", hint=f"write ({given},)")
    try:
        return dims(value)
    except (TypeError, ir.UnsupportedExprError) as error:
        raise LayoutError(given=value, reason=str(error)) from None


def layout_of(
    value: ir.DType | str | LayoutLike,
    size: Size | None = None,
    stride: Size | None = None,
    device: ir.Device | None = None,
    offset: ir.Dim = 0,
) -> ir.Layout:
    """Return the layout that a call's arguments describe: by default row-major, on the CPU.

    ``value`` is a layout, a buffer to imitate, a pair of dtype and size, or a dtype.
    """
    if isinstance(value, ir.Layout):
        if size is not None or stride is not None:
            raise LayoutError(given=value, reason="a layout already has sizes and strides")
        return value
    if isinstance(value, Buffer):
        device = value.device if device is None else device
        dtype, size = value.dtype, value.size if size is None else size
    elif isinstance(value, tuple) and size is None:
        if len(value) != 2:
            raise LayoutError(given=value, reason="expected a pair of dtype and sizes")
        dtype, size = dtype_of(value[0]), value[1]
    elif isinstance(value, (ir.DType, str)):
        dtype = dtype_of(value)
    else:
        raise LayoutError(given=value, reason="it is not a layout, a buffer or a dtype")
    if size is None:
        raise LayoutError(given=value, reason="its sizes are missing")
    sizes = size_of(size)
    strides = ir.contiguous_strides(sizes) if stride is None else size_of(stride)
    return ir.Layout(dtype, ir.CPU if device is None else device, sizes, strides, offset)


# State shared by all parts of the builder.


P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Part")


class Part:
    """Base of the builder's parts, each of which has one family of calls."""

    def __init__(self, device: ir.Device | str) -> None:
        #: The default device of buffers.
        self.device: ir.Device = device_of(device)
        self._draft = ProgramDraft()

    def _emit(self, line: ir.AnyLine) -> None:
        """Append a line whose origin is the user's call."""
        self._draft.emit(replace(line, origin=self._here()))

    def _here(self) -> int:
        """Return the origin of the user's line that called the builder."""
        frame = sys._getframe(1)  # noqa: SLF001 - the only way to get a single frame
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
            frame = frame.f_back
        file, number, function = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        code = linecache.getline(file, number).strip()
        return self._draft.origin(ir.Origin(frames=(ir.Frame(file, number, function, code),)))

    def _buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer after checking that it is a buffer of this program."""
        return self._own(buffer, Buffer)

    def _own(self, handle: H, kind: type[H]) -> H:
        """Return the handle after checking that it is of this kind and of this program."""
        given: object = handle
        if not isinstance(given, kind):
            reason = f"{given!r} is not of type {kind.__name__}"
            raise ArgumentError(callee="the builder", reason=reason)
        if handle.owner is not self._draft:
            raise ForeignValueError(what=kind.__name__.lower(), name=handle.name)
        return handle

    def _new_buffer(self, name: str | None, layout: ir.Layout, stem: str = "buf") -> Buffer:
        """Create a buffer, under a fresh name if none is given."""
        draft = self._draft
        name = draft.fresh(stem, draft.buffers, first=0, is_bare=False) if name is None else name
        _check(name, "buffer", draft.buffers, draft.reserved)
        draft.buffers[name] = layout
        return Buffer(name, layout, draft)

    def _new_object(self, name: str | None, class_name: str) -> Object:
        """Create an object. Objects and buffers share one namespace."""
        draft = self._draft
        taken = draft.buffers.keys() | draft.reserved
        name = draft.fresh("object", taken, first=0, is_bare=False) if name is None else name
        _check(name, "object", taken)
        if CLASS_NAME.fullmatch(class_name) is None:
            raise IllegalNameError(name=class_name, what="class")
        draft.reserved.add(name)
        return Object(name, class_name, draft)

    def _new_symbol(self, name: str | None, info: ir.SymbolInfo) -> sympy.Symbol:
        """Create a symbol, still unbound."""
        draft = self._draft
        name = draft.fresh("u", draft.symbols, first=0, is_bare=False) if name is None else name
        _check(name, "symbol", draft.symbols)
        draft.symbols[name] = info
        return draft.symbol(name)

    def _new_kernel(self, name: str, params: Sequence[ir.Param], source: ir.KernelSource) -> Kernel:
        """Define a kernel."""
        _check(name, "kernel", self._draft.definitions)
        line = ir.KernelDefinition(name, tuple(params), source, origin=self._here())
        self._draft.definitions[name] = line
        return Kernel(line, self._draft)

    def _device_for(self, args: Sequence[ir.Arg]) -> ir.Device:
        """Return the default device of a call: that of its first buffer."""
        buffers = self._draft.buffers
        return next((buffers[arg.buffer].device for arg in buffers_in(args)), self.device)

    def _stream_on(self, device: ir.Device) -> int:
        """Return the current stream if the device has streams, else 0."""
        return 0 if device == ir.CPU else self._draft.stream

    def _device(self, device: ir.Device | str | None) -> ir.Device:
        return self.device if device is None else device_of(device)

    def _layout(
        self,
        dtype: ir.DType | str | LayoutLike,
        size: Size | None = None,
        stride: Size | None = None,
        device: ir.Device | str | None = None,
        offset: ir.Dim = 0,
    ) -> ir.Layout:
        where = None if device is None else device_of(device)
        if where is None and isinstance(dtype, (ir.DType, str, tuple)):
            where = self.device
        return layout_of(dtype, size, stride, where, offset)


def _check(name: str, what: str, *taken: Container[str]) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise IllegalNameError(name=name, what=what)
    if any(name in names for names in taken):
        raise NameTakenError(name=name, what=what)


def located(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make errors of a method name the user's line that called it."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except WrapperIRError as error:
            if error.origin is None:
                number = self._here()
                frame = self._draft.origins[number].frames[0]
                error.origin = f"{frame.file}:{frame.line}"
            raise

    return call
