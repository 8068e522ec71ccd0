"""Arguments and results of the builder's calls: handles, and the many ways to give a layout.

A handle belongs to the draft of one program; what a call is given must be of its own.
"""

from __future__ import annotations

import enum
import functools
import linecache
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import sympy

from wrapper_ir.build.draft import ProgramDraft
from wrapper_ir.build.errors import (
    ArgumentError,
    ForeignValueError,
    IllegalNameError,
    LayoutError,
    NameTakenError,
)
from wrapper_ir.devices import registered
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import (
    CPU,
    DTYPE_BY_SHORT_NAME,
    Arg,
    Device,
    Dim,
    DType,
    Frame,
    KernelDefinition,
    Layout,
    Origin,
    Relation,
    SymbolInfo,
    UnsupportedExprError,
    contiguous_strides,
)
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import dims
from wrapper_ir.lines.schema import CLASS_NAME

if TYPE_CHECKING:
    from collections.abc import Callable


_HERE: Final = str(Path(__file__).parent)

E = TypeVar("E", bound=enum.Enum)
H = TypeVar("H", "Buffer", "Kernel", "Object")

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

    @property
    def name(self) -> str:
        """Its name in the program."""
        return self.definition.name

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
        known = (f"'{kind.type}{':1' if kind.has_index else ''}'" for kind in registered())
        hint = f"devices are spelled as torch spells them: {', '.join(known)}"
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


# Handles of a draft.


def new_buffer(draft: ProgramDraft, name: str | None, layout: Layout, stem: str = "buf") -> Buffer:
    """A handle of a new buffer, under a fresh name if none is given.

    Raises:
        IllegalNameError: the name is no identifier.
        NameTakenError: a buffer or an object has it.
    """
    if name is None:
        name = draft.fresh(stem, draft.buffers, first=0, is_bare=False)
    _check(name, "buffer", draft.buffers)
    _check(name, "buffer", draft.reserved)
    draft.buffers[name] = layout
    return Buffer(name, layout, draft)


def new_object(draft: ProgramDraft, name: str | None, class_name: str) -> Object:
    """A handle of a new object; it shares no name with a buffer.

    Raises:
        IllegalNameError: the name is no identifier, or the class is none.
        NameTakenError: a buffer or an object has it.
    """
    if name is None:
        taken = draft.buffers.keys() | draft.reserved
        name = draft.fresh("object", taken, first=0, is_bare=False)
    _check(name, "object", draft.buffers)
    _check(name, "object", draft.reserved)
    if CLASS_NAME.fullmatch(class_name) is None:
        raise IllegalNameError(name=class_name, what="class")
    draft.reserved.add(name)
    return Object(name, class_name, draft)


def new_symbol(
    draft: ProgramDraft, name: str | None, info: SymbolInfo, stem: str = "u"
) -> sympy.Symbol:
    """A new symbol, which nothing binds yet.

    Raises:
        IllegalNameError: the name is no identifier.
        NameTakenError: another symbol has it.
    """
    if name is None:
        name = draft.fresh(stem, draft.symbols, first=0, is_bare=False)
    _check(name, "symbol", draft.symbols)
    draft.symbols[name] = info
    return draft.symbol(name)


def new_kernel(draft: ProgramDraft, definition: KernelDefinition) -> Kernel:
    """A handle of a new kernel.

    Raises:
        IllegalNameError: its name is no identifier.
        NameTakenError: another kernel has it.
    """
    _check(definition.name, "kernel", draft.definitions)
    draft.definitions[definition.name] = definition
    return Kernel(definition, draft)


def _check(name: str, what: str, taken: Container[str]) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise IllegalNameError(name=name, what=what)
    if name in taken:
        raise NameTakenError(name=name, what=what)


def own(draft: ProgramDraft, handle: H, kind: type[H]) -> H:
    """The handle, which must be of this kind and of this program.

    Raises:
        ArgumentError: it is of no such kind.
        ForeignValueError: it is another program's.
    """
    given: object = handle
    what = kind.__name__.lower()
    if not isinstance(given, kind):
        raise ArgumentError(callee="the builder", reason=f"{given!r} is no {what} of its")
    if handle.owner is not draft:
        raise ForeignValueError(what=what, name=handle.name)
    return handle


# Places: of a call among devices and streams, and of the user's line in the source.


def place(draft: ProgramDraft, args: Sequence[Arg], default: Device) -> tuple[Device, int]:
    """Return the default device and stream of a call: its first buffer's, and the block's."""
    for arg in buffers_in(args):
        device = draft.buffers[arg.buffer].device
        return device, stream_on(draft, device)
    return default, stream_on(draft, default)


def stream_on(draft: ProgramDraft, device: Device) -> int:
    """The stream of the block, where a device has streams."""
    return 0 if device == CPU else draft.stream


def here(draft: ProgramDraft) -> int:
    """The origin of the user's line that called the builder."""
    frame = sys._getframe(1)  # noqa: SLF001 - the only way to ask for one frame, not all
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    file, number = frame.f_code.co_filename, frame.f_lineno
    code = linecache.getline(file, number).strip()
    return draft.origin(Origin(frames=(Frame(file, number, frame.f_code.co_name, code),)))


# State that all parts of the builder share.


P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Part")


class Part:
    """Base of the parts that make up the builder; each has the calls of one family."""

    def __init__(self, device: Device | str) -> None:
        #: Where buffers are unless said otherwise.
        self.device = device_of(device)
        self._draft = ProgramDraft()

    def _layout(
        self,
        dtype: DType | str | LayoutLike,
        size: Size | None = None,
        stride: Size | None = None,
        device: Device | str | None = None,
        offset: Dim = 0,
    ) -> Layout:
        where = None if device is None else device_of(device)
        if where is None and isinstance(dtype, (DType, str, tuple)):
            where = self.device
        return layout_of(dtype, size, stride, where, offset)


def located(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Has errors name the line of the user's that made the call."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except WrapperIRError as error:
            if error.origin is None:
                number = here(self._draft)
                frame = self._draft.origins[number].frames[0]
                error.origin = f"{frame.file}:{frame.line}"
            raise

    return call
