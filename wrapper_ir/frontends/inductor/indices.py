"""Inductor's index expressions: which places of a buffer a kernel's loops reach."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sympy

from wrapper_ir.frontends.inductor.compat import ValueRanges, bound_sympy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Values = Mapping[sympy.Symbol, Any]

#: The most places of one access to compute, where interval arithmetic does not settle it.
_MOST_POINTS: Final = 256


class Index(NamedTuple):
    """The places of one access: those at ``expr``, for all variables from 0 up to their counts.

    Values of the other symbols are given with each question.
    """

    expr: Any
    ranges: tuple[tuple[sympy.Symbol, Any], ...]

    def bounds(self, values: Values) -> Any:
        """Return bounds of the places, as interval arithmetic finds them; None if there are none.

        Raises:
            ArithmeticError, TypeError, ValueError: A count is no number, or below 0.
        """
        counts = self._counts(values)
        if 0 in counts.values():
            return None
        loops = {variable: ValueRanges(0, count - 1) for variable, count in counts.items()}
        return bound_sympy(self._expr(values), loops)

    def places(self, values: Values) -> Iterator[int]:
        """Yield places: all of them, or those for variables near their ends."""
        expr, counts = self._expr(values), self._counts(values)
        most = int(_MOST_POINTS ** (1 / max(len(counts), 1)) + 1e-9)
        ends = [
            [*range(n)] if n <= most else [*range(most - most // 2), *range(n - most // 2, n)]
            for n in counts.values()
        ]
        for point in itertools.product(*ends):
            numbers = map(sympy.Integer, point)
            yield int(expr.xreplace(dict(zip(counts, numbers, strict=True))))

    def symbols(self) -> set[sympy.Symbol]:
        """Return the symbols on which it depends, its variables among them."""
        values = (self.expr, *(count for _, count in self.ranges))
        return {symbol for value in values for symbol in sympy.sympify(value).free_symbols}

    def _expr(self, values: Values) -> Any:
        # A bare symbol becomes the plain number that stands for it.
        return sympy.sympify(sympy.sympify(self.expr).xreplace(values))

    def _counts(self, values: Values) -> dict[sympy.Symbol, int]:
        counts = {variable: number(count, values) for variable, count in self.ranges}
        if min(counts.values(), default=0) < 0:
            raise ValueError("no tensor has less than no elements")
        return counts


def number(value: Any, values: Values) -> int:
    """Return an expression's value for values of its symbols."""
    return int(sympy.sympify(value).xreplace(values))
