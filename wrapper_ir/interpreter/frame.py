"""State of a running region: its buffers, its symbols' values, and the storage that it owns."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy
import torch
from sympy.logic.boolalg import BooleanAtom
from torch import Tensor

from wrapper_ir.interpreter import memory as mem
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.expr import PYTHON_FUNCTIONS, Dim
from wrapper_ir.lines.expr_printer import ordered_args
from wrapper_ir.lines.program import Program, SymbolKind
from wrapper_ir.runtime import check_layout

if TYPE_CHECKING:

    from wrapper_ir.lines.layout import Device, Layout


# Evaluation of expressions with Python's numbers.
#
# The arguments of sums and products are taken in the order that all targets share, so that they
# round alike.

Number: TypeAlias = bool | int | float | complex


def evaluate(value: object, symbols: Mapping[str, Number]) -> Number:
    """Return the value of a dim or scalar, given those of symbols."""
    try:
        return _value(value, symbols)
    except (ArithmeticError, ValueError) as error:
        raise mem.SymbolValueError(what=f"'{value}' cannot be computed: {error}") from error


def _value(value: object, symbols: Mapping[str, Number]) -> Number:
    if isinstance(value, Number):
        return value
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, sympy.Float):
        return float(value)
    if isinstance(value, BooleanAtom):
        return bool(value)
    if isinstance(value, sympy.Symbol):
        if value.name not in symbols:
            raise mem.SymbolValueError(what=f"symbol {value.name} has no value here")
        return symbols[value.name]
    if isinstance(value, ours.Where):
        condition, then, other = value.args
        return _value(then if _value(condition, symbols) else other, symbols)
    if isinstance(value, (sympy.And, sympy.Or)):
        test = all if isinstance(value, sympy.And) else any
        return test(bool(_value(arg, symbols)) for arg in ordered_args(value))
    function = _FUNCTIONS.get(type(value))
    if function is None or not isinstance(value, sympy.Basic):
        raise mem.SymbolValueError(what=f"'{value}' is outside the vocabulary")
    args = ordered_args(value) if isinstance(value, (sympy.Add, sympy.Mul)) else value.args
    result: Number = function(*(_value(arg, symbols) for arg in args))
    return result


_FUNCTIONS: Final[Mapping[type[sympy.Basic], Callable[..., Any]]] = {
    **PYTHON_FUNCTIONS,
    sympy.Add: lambda *args: reduce(operator.add, args),
    sympy.Mul: lambda *args: reduce(operator.mul, args),
    sympy.Max: max,
    sympy.Min: min,
    sympy.Not: operator.not_,
    ours.CeilDiv: lambda a, b: -(-a // b),
    ours.ToFloat: float,
    ours.FloatPow: lambda a, b: float(a) ** float(b),
    **{
        function: getattr(math, function.__name__.lower())
        for function in (ours.Sqrt, ours.Exp, ours.Log, ours.Log2, ours.Sin, ours.Cos, ours.Tanh)
    },
}


KINDS: Final[Mapping[SymbolKind, type]] = {
    SymbolKind.INT: int,
    SymbolKind.FLOAT: float,
    SymbolKind.BOOL: bool,
    SymbolKind.NONE: type(None),
}


def dtype_of(layout: Layout) -> torch.dtype:
    """Return torch's element type of a layout."""
    dtype: torch.dtype = getattr(torch, layout.dtype.torch_name)
    return dtype


#: Whether the host stands for all devices.
on_host: Final[ContextVar[bool]] = ContextVar("on_host", default=False)


def torch_device(device: Device) -> torch.device:
    """Return torch's device that stands for one of a program's."""
    return torch.device("cpu" if on_host.get() else str(device))


def device_of(layout: Layout) -> torch.device:
    """Return torch's device of a layout."""
    return torch_device(layout.device)


@dataclass(eq=False)
class Buffer:
    """A name, its tensor, and the storages that it views or may view."""

    name: str
    tensor: Tensor
    storages: tuple[mem.Storage, ...]  # the tensor lies in the first
    owns: bool = False  # the name may end the storage
    is_new: bool = False  # its layout is unchecked, because its symbols may be bound later
    maker: str = ""  # the call that returned it


@dataclass(eq=False)
class Frame:
    """One run of one region."""

    program: Program
    constants: Mapping[str, Buffer]
    objects: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, Number] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    owned: list[mem.Storage] = field(default_factory=list)

    # Names.

    def find(self, name: str) -> Buffer:
        """Return a live buffer.

        Raises:
            UndefinedBufferError: No buffer has the name.
            DeadBufferError: Its storage has ended.
        """
        buffer = self.buffers.get(name) or self.constants.get(name)
        if buffer is None:
            raise mem.UndefinedBufferError(name=name)
        for storage in buffer.storages:
            if end := storage.whole_end:
                raise mem.DeadBufferError(name=name, why=end)
        return buffer

    def define(self, buffer: Buffer) -> Buffer:
        """Add a name."""
        self.buffers[buffer.name] = buffer
        return buffer

    def own(self, storage: mem.Storage, tensor: Tensor) -> Buffer:
        """Add the name that owns a storage, which this region must end."""
        self.owned.append(storage)
        return self.define(Buffer(storage.owner, tensor, (storage,), owns=True))

    # Numbers.

    def number(self, value: object) -> Number:
        """Return the value of an expression."""
        return evaluate(value, self.symbols)

    def dim(self, value: Dim) -> int:
        """Return the value of a size, stride or offset."""
        number = self.number(value)
        if not isinstance(number, int) or isinstance(number, bool):
            raise mem.SymbolValueError(what=f"'{value}' is {number!r}, not an integer")
        return number

    def dims(self, values: tuple[Dim, ...]) -> list[int]:
        """Return the values of sizes or strides."""
        return [self.dim(value) for value in values]

    def check(self, name: str, tensor: Tensor) -> None:
        """Check a tensor against the layout of a name, whose symbols all have values."""
        layout = self.program.layout(name)
        size, stride = tuple(self.dims(layout.size)), tuple(self.dims(layout.stride))
        check_layout(tensor, name, dtype_of(layout), device_of(layout), size, stride)

    def bind(self, symbol: str, value: object) -> None:
        """Set the value of a symbol.

        Raises:
            SymbolValueError: The value has the wrong kind or is outside the symbol's range.
        """
        info = self.program.symbols[symbol]
        kind = KINDS[info.kind]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind or not isinstance(value, (bool, int, float)):
            what = f"symbol {symbol} is of type {kind.__name__} and cannot be {value!r}"
            raise mem.SymbolValueError(what=what)
        low, high = info.lower, info.upper
        if (low is not None and value < low) or (high is not None and value > high):
            what = f"symbol {symbol} is {value}, outside its range [{low}, {high}]"
            raise mem.SymbolValueError(what=what)
        self.symbols[symbol] = value

    # Memory.

    def nbytes(self, layout: Layout) -> int:
        """Return the bytes from the first to the last element of a layout, without its offset."""
        size, stride = self.dims(layout.size), self.dims(layout.stride)
        if 0 in size:
            return 0
        steps = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        return (steps + 1) * layout.dtype.itemsize

    def begin(self, buffer: Buffer) -> int:
        """Return the byte offset in memory that a buffer's storage offset counts from.

        That is the start of the storage or, for a parameter of a region, the start of its operand.
        """
        layout = self.program.layout(buffer.name)
        offset = int(buffer.tensor.storage_offset()) - self.dim(layout.offset)
        return offset * layout.dtype.itemsize

    def place(self, name: str, of: mem.Storage, layout: Layout, base: int | None = None) -> Tensor:
        """Return a view of a storage with a layout, whose offset counts from ``base``.

        Raises:
            OutOfBoundsError: It begins inside an element or ends beyond the storage.
        """
        size, stride = self.dims(layout.size), self.dims(layout.stride)
        if any(n < 0 for n in size):
            raise mem.OutOfBoundsError(name=name, why=f"its sizes are {size}")
        at = self.dim(layout.offset) * layout.dtype.itemsize
        at += 0 if base is None else base - of.start
        if (of.start + at) % layout.dtype.itemsize:
            raise mem.OutOfBoundsError(name=name, why="it begins inside an element")
        length = self.nbytes(layout)
        room = of.nbytes
        if of.block is None:  # the bound is the memory behind the caller's tensor
            room = of.tensor.untyped_storage().nbytes() - of.start
        if length and (at < 0 or at + length > room):
            why = f"it ends at byte {at + length} of a storage of {room} bytes"
            raise mem.OutOfBoundsError(name=name, why=why)
        if not length and not 0 <= at <= room:
            at = 0  # without elements, the position does not matter
        return mem.view(of, dtype_of(layout), size, stride, at)

    def end(
        self, buffer: Buffer, why: str, *, heir: str = "", is_used: bool = False
    ) -> mem.Storage:
        """End the storage that a name owns, or pass it on to ``heir``.

        Its contents are lost, unless work on a stream may still need them (``is_used``).

        Returns:
            The storage, or the heir's.

        Raises:
            WrongEndError: The name does not own the storage, or something in it is still alive.
        """
        storage = buffer.storages[0]
        if storage.kind is mem.Kind.CONSTANT or not buffer.owns:
            is_constant = storage.kind is mem.Kind.CONSTANT
            why = "it belongs to a constant" if is_constant else "it is a view"
            raise mem.WrongEndError(name=buffer.name, why=why)
        if storage.slices:
            names = ", ".join(f"%{each.owner}" for each in storage.slices)
            raise mem.WrongEndError(name=buffer.name, why=f"it has live slices: {names}")
        if heir and storage.is_held:
            raise mem.WrongEndError(name=buffer.name, why="an object may hold it")
        storage.end = why
        if storage in self.owned:
            self.owned.remove(storage)
        if heir:
            return storage.heir(heir)
        if storage.pool is not None:
            storage.pool.slices.remove(storage)
        if storage.kind is mem.Kind.OWNED and not (storage.is_held or is_used):
            mem.poison(storage)
        return storage
