"""Symbolic sizes and offsets, as sums of products of symbols."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import sympy

from wrapper_ir.lines.expr import CeilDiv, Dim, dim, symbol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.lines import Program
    from wrapper_ir.planning.offsets import Interval

# Sums of products of symbols as coefficients by term, which are fast to add and compare; sympy is a
# thousand times slower. Comparing coefficients needs terms that are never negative, which
# :class:`Ground` knows.

Linear: TypeAlias = dict[sympy.Expr, int]
"""The coefficient of each term; the constant's term is 1."""

_DEPTH: Final = 3
"""The most nested symbols that a comparison expands."""


def linear(value: Dim) -> Linear:
    """Multiply out an expression."""
    if type(value) is int:
        return {sympy.S.One: value} if value else {}
    found: Linear = {}
    for term in sympy.Add.make_args(sympy.expand(value)):
        coefficient, rest = term.as_coeff_Mul()
        found[rest] = found.get(rest, 0) + int(coefficient)
    return found


def total(a: Linear, b: Linear) -> Linear:
    """Return the sum."""
    found = dict(a)
    for term, coefficient in b.items():
        found[term] = found.get(term, 0) + coefficient
    return found


def expression(value: Linear, factor: int = 1) -> Dim:
    """Convert back to an expression, times a factor."""
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
        """Record that a symbol is never negative and never less than any of ``floors``."""
        self._counts.add(name)
        self._floors[symbol(name)] = list(floors)

    def at_least(self, large: Linear, small: Linear, depth: int = _DEPTH) -> bool:
        """Return whether ``large >= small`` follows from coefficients and floors."""
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
        """Return the values that no other value provably bounds from above."""
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


# Plans for symbolic sizes keep only the vertical order of a plan made at the hints.
#
# Of two storages alive at once, one is below the other. Each offset is the maximum of
# *offset + size* over the storages directly below it at some time. This is correct for all sizes by
# construction, and at the hints no higher than the original plan. The relation "directly below" is
# planar, so there are at most three times as many terms as storages.
#
# Offsets and sizes are in units of the alignment, so that byte offsets are visibly aligned. An
# offset that is more than a sum gets its own symbol, computed once before the arena is allocated,
# so the text grows linearly with the program.

Compute: TypeAlias = Callable[[str, Dim], str]

_SHORT: Final = 3
"""The most terms of a sum that is written in place instead of under a name."""


class Relations(NamedTuple):
    """Numbers of the intervals that lie directly on each other at some time."""

    below: list[list[int]]
    on_top: list[int]
    """Intervals with nothing above them at some time."""
    order: list[int]
    """All intervals, each after those below it."""


def relations(intervals: Sequence[Interval], offsets: Sequence[int]) -> Relations:
    """Return the vertical order of a plan for intervals, none of which may be empty."""
    count = len(intervals)
    below: list[set[int]] = [set() for _ in range(count)]
    on_top: set[int] = set()
    events = sorted(
        [(lower, 1, n) for n, (lower, _, _) in enumerate(intervals)]
        + [(upper, 0, n) for n, (_, upper, _) in enumerate(intervals)]
    )
    alive: list[tuple[int, int]] = []
    for _, begins, n in events:
        at = bisect_left(alive, (offsets[n], n))
        if begins:
            insort(alive, (offsets[n], n))
        else:
            del alive[at]
        # A new interval is adjacent to both sides; after a removal the sides are adjacent.
        for low in range(max(at - 1, 0), min(at + 1, len(alive) - 1)):
            below[alive[low + 1][1]].add(alive[low][1])
        if alive and at >= len(alive) - 1:
            on_top.add(alive[-1][1])
    order = sorted(range(count), key=lambda n: (offsets[n], n))
    return Relations([sorted(lower) for lower in below], sorted(on_top), order)


class Units:
    """Sizes in units of the alignment, as sums that are never negative."""

    def __init__(self, ground: Ground, alignment: int) -> None:
        self.ground = ground
        self.alignment = alignment
        self._known: dict[Dim, Linear] = {}

    def of(self, nbytes: Dim, compute: Compute) -> Linear:
        """Return the units that hold ``nbytes``; unless a sum of products, they get a symbol."""
        found = self._known.get(nbytes)
        if found is None:
            found = self._known[nbytes] = self._of(nbytes, compute)
        return found

    def _of(self, nbytes: Dim, compute: Compute) -> Linear:
        terms = linear(nbytes)
        is_count = self.ground.at_least(terms, {})
        if is_count and all(part % self.alignment == 0 for part in terms.values()):
            return {term: part // self.alignment for term, part in terms.items()}
        if type(nbytes) is int:
            return linear(-(-nbytes // self.alignment))
        units = CeilDiv(nbytes, self.alignment)
        return self.named("size", units if is_count else sympy.Max(units, 0), compute)

    def named(
        self, kind: str, value: Dim, compute: Compute, floors: Sequence[Linear] = ()
    ) -> Linear:
        """Return a symbol for an expression that is never less than 0 or ``floors``."""
        name = compute(kind, dim(value))
        self.ground.note(name, floors)
        return {symbol(name): 1}


def placed(
    related: Relations, sizes: Sequence[Linear], units: Units, compute: Compute
) -> tuple[list[Linear], Dim]:
    """Return the offsets and the height of an arena, in units.

    Args:
        related: The vertical order.
        sizes: The sizes in units.
        units: Units of the arena's alignment.
        compute: ``(prefix, expression)``: returns the name of a symbol for the expression.
    """
    lows: list[Linear] = [{} for _ in sizes]
    known: dict[Dim, Linear] = {}
    for n in related.order:
        tops = units.ground.largest(total(lows[j], sizes[j]) for j in related.below[n])
        if not tops or (len(tops) == 1 and len(tops[0]) <= _SHORT):
            lows[n] = tops[0] if tops else {}
            continue
        value = _maximum(tops)
        if value not in known:
            known[value] = units.named("at", value, compute, tops)
        lows[n] = known[value]
    tops = units.ground.largest(total(lows[n], sizes[n]) for n in related.on_top)
    return lows, _maximum(tops)


def _maximum(values: list[Linear]) -> Dim:
    found = [expression(value) for value in values]
    return found[0] if len(found) == 1 else dim(sympy.Max(*found))
