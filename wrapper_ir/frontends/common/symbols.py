"""Unbacked symbols, and names for the symbols that a model takes as inputs.

Torch describes the source of an unbacked symbol by a key path: indices that lead to a leaf of an
op's result, then keys that lead from the leaf to the number, such as a call of ``size`` and
conversions of its value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy

from wrapper_ir.lines import expr as ours
from wrapper_ir.lines import symbols as lines
from wrapper_ir.lines.program import Program, SymbolInfo
from wrapper_ir.lines.walk import Renaming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wrapper_ir.build.draft import ProgramDraft
    from wrapper_ir.lines.expr import Dim


Keys: TypeAlias = tuple[Any, ...]
"""Torch's keys from a leaf to a number; empty if the leaf is the number."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A symbol whose value the result of a call determines."""

    symbol: sympy.Symbol
    path: tuple[int, ...]  #: of the leaf in the result
    keys: Keys

    @property
    def name(self) -> str:
        """Torch's name for the symbol."""
        return str(self.symbol)


def bindings_of(noted: Mapping[Any, Any] | None) -> list[Binding]:
    """Return the symbols that a call determines, from torch's record of them."""
    return [Binding(symbol, *_split(keypath)) for symbol, keypath in (noted or {}).items()]


class UnknownWayError(Exception):
    """The keys to a symbol's value cannot be expressed. Never leaves a front end."""

    def __init__(self, symbol: str, keys: Keys) -> None:
        self.shown: str = ".".join(map(str, keys))
        super().__init__(f"the value of {symbol} cannot be read: unknown key {self.shown}")


def _split(keypath: Iterable[Any]) -> tuple[tuple[int, ...], Keys]:
    """Split a key path into the path of a leaf and the remaining keys."""
    keys = tuple(keypath)
    leaf = [*takewhile(lambda key: type(key).__name__ == "SequenceKey", keys)]
    return tuple(key.idx for key in leaf), keys[len(leaf) :]


def _way_in(symbol: str, buffer: str, keys: Keys) -> tuple[lines.SymbolSource, Keys]:
    """Return the source in a buffer's metadata that keys begin with, and the remaining keys."""
    method = getattr(keys[0], "name", None)
    if method in ("size", "stride") and len(keys) > 1 and hasattr(keys[1], "idx"):
        made = lines.SizeOf if method == "size" else lines.StrideOf
        return made(buffer, keys[1].idx), keys[2:]
    if method == "storage_offset":
        return lines.StorageOffsetOf(buffer), keys[1:]
    raise UnknownWayError(symbol, keys)


def bind_along(
    draft: ProgramDraft,
    binding: Binding,
    start: str | lines.SymbolSource,
    *,
    bind: Callable[[], str],
    dim: Callable[[Any], Dim],
    origin: int | None = None,
) -> None:
    """Bind a symbol to a source, converted as its keys demand.

    ``start`` is a source, or a buffer whose metadata the keys read; ``bind`` marks the symbol as
    bound and returns its name; ``dim`` converts torch's numbers.

    Raises:
        UnknownWayError: A key cannot be expressed.
    """
    symbol = binding.name
    keys = binding.keys
    source, keys = _way_in(symbol, start, keys) if isinstance(start, str) else (start, keys)
    if not keys:
        draft.emit(lines.BindSymbol(bind(), source, origin=origin))
        return
    kind = type(keys[0]).__name__
    if len(keys) > 1 or kind not in ("ConvertIntKey", "DivideByKey"):
        raise UnknownWayError(symbol, keys)
    raw = draft.bind(draft.fresh(f"{symbol}_raw"), SymbolInfo(unbacked=True))
    draft.emit(lines.BindSymbol(raw, source, origin=origin))
    value = draft.symbol(raw)
    if kind == "ConvertIntKey":
        result = ours.Where(sympy.Ne(value, 0), sympy.S.One, sympy.S.Zero)
    else:
        divisor = dim(keys[0].divisor)
        message = f"{symbol} is not divisible by {divisor}"
        is_whole = sympy.Eq(ours.Mod(value, divisor), 0)
        draft.emit(lines.AssertSymbol(is_whole, message, origin=origin))
        result = ours.FloorDiv(value, divisor)
    draft.emit(lines.ComputeSymbol(bind(), result, origin=origin))


# Names for numbers that a model takes: the model's own instead of torch's ``s86``.


IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def free_names(program: Program, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return those of the wanted names of symbols that are legal and unused in a program."""
    taken = {*program.symbols, *program.buffers, *program.objects, *program.constants}
    names: dict[str, str] = {}
    for symbol, name in wanted.items():
        if name not in taken and IDENTIFIER.fullmatch(name):
            names[symbol] = name
            taken.add(name)
    return names


def with_symbols_named(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with some symbols renamed. Messages keep the old names."""
    if not names:
        return program
    return Renaming(str, str, lambda name: names.get(name, name)).program(program)
