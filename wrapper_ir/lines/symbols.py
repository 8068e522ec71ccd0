"""Lines that bind, compute and check symbols and layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias, final

from wrapper_ir.lines.base import DefSymbol, Line, Read, Runs, Trait, Use
from wrapper_ir.lines.expr import ByScalars, Scalar, scalar

__all__ = ["AssertApart", "AssertLayout", "AssertSymbol", "BindSymbol", "ComputeSymbol", "ItemOf"]
__all__ += ["SizeOf", "StorageOffsetOf", "StrideOf", "SymbolSource"]


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The size of dimension ``dim`` of a buffer, in elements."""

    method: ClassVar[str] = "size"
    syntax: ClassVar[str] = "size {buffer}, {dim}"
    nouns: ClassVar[Mapping[str, str]] = {"dim": "a dimension"}
    buffer: Use
    dim: int


@dataclass(frozen=True, slots=True)
class StrideOf:
    """The stride of dimension ``dim`` of a buffer, in elements."""

    method: ClassVar[str] = "stride"
    syntax: ClassVar[str] = "stride {buffer}, {dim}"
    nouns: ClassVar[Mapping[str, str]] = {"dim": "a dimension"}
    buffer: Use
    dim: int


@dataclass(frozen=True, slots=True)
class StorageOffsetOf:
    """The storage offset of a buffer, in elements."""

    method: ClassVar[str] = "storage_offset"
    syntax: ClassVar[str] = "storage_offset {buffer}"
    buffer: Use


@dataclass(frozen=True, slots=True)
class ItemOf:
    """The only element of a buffer, read on the host, which waits for the device."""

    method: ClassVar[str] = "item"
    syntax: ClassVar[str] = "item {buffer}"
    buffer: Read


SymbolSource: TypeAlias = SizeOf | StrideOf | StorageOffsetOf | ItemOf
"""The source of a symbol's value. ``method`` is the ``torch.Tensor`` method that returns it."""


def dims_of(source: SymbolSource) -> tuple[int, ...]:
    """Return the arguments of a source's method: its dimension, if it has one."""
    return (source.dim,) if isinstance(source, (SizeOf, StrideOf)) else ()


@final
@dataclass(frozen=True, slots=True)
class BindSymbol(Line):
    """``s0 = size %buffer, 0`` — binds a symbol to a value read from a buffer.

    The value comes from the metadata or, with ``item``, from the contents.
    """

    mnemonic: ClassVar[str] = "bind"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.BINDS, Trait.NO_NUMBERS})
    syntax: ClassVar[str] = "{symbol} = {source}"
    symbol: DefSymbol
    source: SymbolSource


@final
@dataclass(frozen=True, slots=True, eq=False)
class ComputeSymbol(Line):
    """``u1 = compute s0*4 + 1`` — binds a symbol to the value of an expression."""

    mnemonic: ClassVar[str] = "compute"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.COMPUTES})
    syntax: ClassVar[str] = "{symbol} = compute {value}"
    symbol: DefSymbol
    value: Scalar

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", scalar(self.value))

    if not TYPE_CHECKING:  # a dataclass would make its own
        __eq__ = ByScalars.__eq__
        __hash__ = ByScalars.__hash__


@final
@dataclass(frozen=True, slots=True)
class AssertLayout(Line):
    """``assert_layout %buffer, "what"`` — checks that the buffer has its declared layout.

    Rank, dtype, device, sizes and strides are checked, except for strides of dimensions of size one
    and of buffers without elements. ``alignment`` is in bytes, 0 for none. ``subject`` names the
    checked buffer in messages: an input, or the op that returned it.
    """

    mnemonic: ClassVar[str] = "assert_layout"
    runs: ClassVar[Runs] = Runs.NAMES
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.CHECKS_LAYOUT, Trait.ANY_KIND})
    syntax: ClassVar[str] = "assert_layout {buffer}, {subject}[ align {alignment}]"
    nouns: ClassVar[Mapping[str, str]] = {"subject": 'what is checked, such as "input"'}
    buffer: Use
    subject: str = "input"
    alignment: int = 0


@final
@dataclass(frozen=True, slots=True)
class AssertApart(Line):
    """``assert_apart (%a) from (%b, %c)`` — checks that buffers share no memory.

    No ``written`` buffer may have a byte in common with another one of the line. Front ends whose
    graphs know of no such tensors write it where a program writes to its inputs.
    """

    mnemonic: ClassVar[str] = "assert_apart"
    runs: ClassVar[Runs] = Runs.HOST
    syntax: ClassVar[str] = "assert_apart {written}[ from {others}]"
    written: tuple[Use, ...]
    others: tuple[Use, ...] = ()


@final
@dataclass(frozen=True, slots=True, eq=False)
class AssertSymbol(Line):
    """``assert condition, "message"`` — checks a relation among symbols."""

    mnemonic: ClassVar[str] = "assert"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ASSERTS})
    syntax: ClassVar[str] = "assert {condition}[, {message}]"
    condition: Scalar
    message: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", scalar(self.condition))

    if not TYPE_CHECKING:  # a dataclass would make its own
        __eq__ = ByScalars.__eq__
        __hash__ = ByScalars.__hash__
