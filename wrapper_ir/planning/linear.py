"""Sums of products of symbols, as numbers by term: quick to add and to compare.

sympy would do the same, a thousand times slower. Only what is never negative can be compared by
coefficients: :class:`Ground` knows which symbols are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import sympy

from wrapper_ir.lines.expr import Dim, dim, symbol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import Program

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
