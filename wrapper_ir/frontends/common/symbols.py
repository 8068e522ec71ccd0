"""Symbols whose value only the data gives, and names of those that a model takes.

Torch says where it finds the size of a result, or a number read from a tensor, by a key path:
indices that lead to a leaf of an op's result, then keys that lead from there to the number, such as
a call of ``size`` and what becomes of its value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy

from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.program import SymbolInfo
from wrapper_ir.lines.symbols import (
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    SizeOf,
    StorageOffsetOf,
    StrideOf,
    SymbolSource,
)
from wrapper_ir.lines.walk import Renaming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wrapper_ir.build.draft import ProgramDraft
    from wrapper_ir.lines.expr import Dim
    from wrapper_ir.lines.program import Program


Keys: TypeAlias = tuple[Any, ...]
"""Keys of torch's from a leaf to a number; none if the leaf is the number."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A symbol that the result of a call decides.

    Attributes:
        symbol: Torch's.
        path: The leaf of the result.
        keys: The way from there to the number.
    """

    symbol: sympy.Symbol
    path: tuple[int, ...]
    keys: Keys

    @property
    def name(self) -> str:
        """Torch's name of the symbol."""
        return str(self.symbol)


def bindings_of(noted: Mapping[Any, Any] | None) -> list[Binding]:
    """Return the symbols that a call decides, of torch's note of them."""
    return [Binding(symbol, *_split(keypath)) for symbol, keypath in (noted or {}).items()]


class UnknownWayError(Exception):
    """Keys lead to a symbol's value in a way that has no form. Never leaves a front end."""

    def __init__(self, symbol: str, keys: Keys) -> None:
        self.shown = ".".join(map(str, keys))
        super().__init__(f"the way to {symbol} is unknown: {self.shown}")


def _split(keypath: Iterable[Any]) -> tuple[tuple[int, ...], Keys]:
    """Return the path of the leaf that a key path begins with, and the keys that are left."""
    keys = tuple(keypath)
    count = 0
    while count < len(keys) and type(keys[count]).__name__ == "SequenceKey":
        count += 1
    return tuple(key.idx for key in keys[:count]), keys[count:]


def _way_in(symbol: str, buffer: str, keys: Keys) -> tuple[SymbolSource, Keys]:
    """Return the way to a symbol that begins in a tensor's metadata.

    Raises:
        UnknownWayError: It begins elsewhere.
    """
    method = getattr(keys[0], "name", None)
    if method in ("size", "stride") and len(keys) > 1 and hasattr(keys[1], "idx"):
        made = SizeOf if method == "size" else StrideOf
        return made(buffer, keys[1].idx), keys[2:]
    if method == "storage_offset":
        return StorageOffsetOf(buffer), keys[1:]
    raise UnknownWayError(symbol, keys)


def bind_along(
    draft: ProgramDraft,
    binding: Binding,
    start: str | SymbolSource,
    *,
    bind: Callable[[], str],
    dim: Callable[[Any], Dim],
    origin: int | None = None,
) -> None:
    """Bind a symbol to a source, after doing to its value what keys say.

    Args:
        draft: The program.
        binding: The symbol, and the keys that lead to its value.
        start: What they lead from: a buffer, whose metadata they read, or a source.
        bind: Binds the symbol from here on, and gives its name.
        dim: Converts a number of torch's.
        origin: The origin of the lines.

    Raises:
        UnknownWayError: The keys do something that has no form.
    """
    symbol = binding.name
    source, keys = (
        _way_in(symbol, start, binding.keys) if isinstance(start, str) else (start, binding.keys)
    )
    if not keys:
        draft.emit(BindSymbol(bind(), source, origin=origin))
        return
    kind = type(keys[0]).__name__
    if len(keys) > 1 or kind not in ("ConvertIntKey", "DivideByKey"):
        raise UnknownWayError(symbol, keys)
    raw = draft.bind(draft.fresh(f"{symbol}_raw"), SymbolInfo(unbacked=True))
    draft.emit(BindSymbol(raw, source, origin=origin))
    value = draft.symbol(raw)
    if kind == "ConvertIntKey":
        result = ours.Where(sympy.Ne(value, 0), sympy.S.One, sympy.S.Zero)
    else:
        divisor = dim(keys[0].divisor)
        message = f"{symbol} is not divisible by {divisor}"
        draft.emit(AssertSymbol(sympy.Eq(ours.Mod(value, divisor), 0), message, origin=origin))
        result = ours.FloorDiv(value, divisor)
    draft.emit(ComputeSymbol(bind(), result, origin=origin))


# Numbers that a model takes, called as the model calls them: torch calls one ``s86``.


_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def free_names(program: Program, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the better names of symbols that nothing else in a program has.

    Args:
        program: The program.
        wanted: The name that each of some symbols should have.
    """
    taken = {*program.symbols, *program.buffers, *program.objects, *program.constants}
    found: dict[str, str] = {}
    for symbol, name in wanted.items():
        if name not in taken and _IDENTIFIER.fullmatch(name):
            found[symbol] = name
            taken.add(name)
    return found


def with_symbols_named(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with other names for some of its symbols; messages keep their words."""
    if not names:
        return program
    same = str
    return Renaming(same, same, lambda name: names.get(name, name)).program(program)
