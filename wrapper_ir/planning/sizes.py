"""Bytes of buffers: exactly as expressions, and as numbers at the symbols' hints.

Numbers at hints are for choosing and for reports. Whether storage fits is decided by the
expressions alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import sympy

from wrapper_ir.analysis.proof import grows
from wrapper_ir.lines.expr import (
    Dim,
    Scalar,
    UnsupportedExprError,
    dim,
    free_symbols,
    substitute,
    symbol,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wrapper_ir.lines import Device, Layout, Program, SymbolInfo


# Sums of products of symbols, as numbers by term: quick to add and to compare.
#
# sympy would do the same, a thousand times slower. Only what is never negative can be compared by
# coefficients: :class:`Ground` knows which symbols are.

Linear: TypeAlias = dict[sympy.Expr, int]
"""Coefficient of each term; the term of the constant is 1."""

_DEPTH: Final = 3
"""Symbols that are looked through, one in another."""


def linear(value: Dim) -> Linear:
    """An expression, multiplied out."""
    if type(value) is int:
        return {sympy.S.One: value} if value else {}
    found: Linear = {}
    for term in sympy.Add.make_args(sympy.expand(value)):
        coefficient, rest = term.as_coeff_Mul()
        found[rest] = found.get(rest, 0) + int(coefficient)
    return found


def total(a: Linear, b: Linear) -> Linear:
    """The sum of two."""
    found = dict(a)
    for term, coefficient in b.items():
        found[term] = found.get(term, 0) + coefficient
    return found


def expression(value: Linear, factor: int = 1) -> Dim:
    """The expression again, times a factor."""
    terms = (factor * coefficient * term for term, coefficient in value.items())
    return dim(sympy.Add(*terms))


class Ground:
    """Terms that are never negative."""

    def __init__(self, program: Program) -> None:
        self._counts = {
            name
            for name, info in program.symbols.items()
            if info.lower is not None and info.lower >= 0
        }
        for layout in program.buffers.values():
            self._counts |= {s.name for s in layout.size if isinstance(s, sympy.Symbol)}
        self._known: dict[sympy.Expr, bool] = {sympy.S.One: True}
        self._floors: dict[sympy.Expr, list[Linear]] = {}

    def note(self, name: str, floors: Iterable[Linear] = ()) -> None:
        """Notes that a symbol is never negative, and never less than each of ``floors``."""
        self._counts.add(name)
        self._floors[symbol(name)] = list(floors)

    def at_least(self, large: Linear, small: Linear, depth: int = _DEPTH) -> bool:
        """Return whether one is provably never less than the other, by coefficients and floors."""
        if self._covers(large, small):
            return True
        for term in large if depth else ():
            for floor in self._floors.get(term, ()):
                lower = {other: part for other, part in large.items() if other != term}
                if large[term] == 1 and self.at_least(total(lower, floor), small, depth - 1):
                    return True
        return False

    def _covers(self, large: Linear, small: Linear) -> bool:
        for term in large.keys() | small.keys():
            difference = large.get(term, 0) - small.get(term, 0)
            if difference and (difference < 0 or not self._is_count(term)):
                return False
        return True

    def largest(self, values: Iterable[Linear]) -> list[Linear]:
        """Those that none of the others is never less than."""
        kept: list[Linear] = []
        for value in values:
            if any(self.at_least(other, value) for other in kept):
                continue
            kept = [other for other in kept if not self.at_least(value, other)]
            kept.append(value)
        return kept

    def _is_count(self, term: sympy.Expr) -> bool:
        found = self._known.get(term)
        if found is None:
            bases = term.as_powers_dict()
            found = self._known[term] = all(
                isinstance(base, sympy.Symbol) and base.name in self._counts for base in bases
            )
        return found


ASSUMED: Final = 8192
"""Taken for a symbol without a hint, moved into the symbol's range."""


class Sizes:
    """Bytes of a program's buffers at the hints; notes which symbols that depended on."""

    def __init__(self, program: Program) -> None:
        self._layouts: Mapping[str, Layout] = program.buffers
        self._infos = program.symbols
        #: Value taken for each symbol that a size asked for.
        self.taken: dict[str, int] = {}
        #: Those of them that have no hint.
        self.assumed: set[str] = set()
        self._derived: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self._known: dict[Dim, int] = {}

    def of(self, name: str) -> int:
        """Bytes that a buffer spans, at the hints; 0 for one without a layout."""
        found = self._by_name.get(name)
        if found is None:
            layout = self._layouts.get(name)
            found = 0 if layout is None else self.value(nbytes_of(layout))
            self._by_name[name] = found
        return found

    def value(self, nbytes: Dim) -> int:
        """A number of bytes at the hints, not less than 0."""
        if type(nbytes) is int:
            return nbytes
        found = self._known.get(nbytes)
        if found is None:
            found = self._known[nbytes] = max(self._at_hints(nbytes) or 0, 0)
        return found

    def scalar(self, value: Scalar) -> int | None:
        """The value of an expression at the hints; nothing where that is no integer."""
        if isinstance(value, sympy.Basic) and grows(value):
            return None
        return self._at_hints(value)

    def _at_hints(self, value: Scalar) -> int | None:
        """The value of an expression; nothing where it is no integer, or not to be had exactly."""
        names = free_symbols(value)
        try:
            found = substitute(value, {name: self._take(name) for name in names})
        except UnsupportedExprError:
            return None
        return found if type(found) is int else None

    def know(self, name: str, value: int) -> None:
        """Says what a symbol's value is, rather than its hint."""
        self._derived[name] = value

    def _take(self, name: str) -> int:
        if name in self._derived:
            return self._derived[name]
        if name not in self.taken:
            info = self._infos.get(name)
            if info is None or info.hint is None:
                self.assumed.add(name)
            self.taken[name] = _typical(info)
        return self.taken[name]


class Rounded(Sizes):
    """Sizes as any allocator gives them out: rounded up, so that arenas have no disadvantage."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._alignments = {name: alignment_of(of.device) for name, of in program.buffers.items()}

    def of(self, name: str) -> int:
        """Bytes of a buffer at the hints, a multiple of the alignment on its device."""
        alignment = self._alignments.get(name, 1)  # a pool that is being planned has no layout yet
        return -(-super().of(name) // alignment) * alignment


def alignment_of(device: Device) -> int:
    """Bytes that places in arenas on a device are multiples of."""
    return device.kind.memory.alignment


def _typical(info: SymbolInfo | None) -> int:
    if info is None:
        return ASSUMED
    if info.hint is not None:
        return info.hint
    least = info.lower if info.lower is not None else 0
    most = info.upper if info.upper is not None else max(ASSUMED, least)
    return min(max(ASSUMED, least), most)


def nbytes_of(layout: Layout) -> Dim:
    """Bytes that a layout spans, multiplied out, so that equal sizes are equal values."""
    extent = layout.extent if layout.is_static else _extent(layout)
    return extent * layout.dtype.itemsize


@lru_cache(maxsize=65536)
def _extent(layout: Layout) -> Dim:
    return dim(sympy.expand(layout.extent))
