"""Proofs about symbolic sizes from the ranges of their symbols.

Convention: ``True`` is a proof; ``False`` means "not proved", never "disproved". Hints prove
nothing, but they can refute, since they are one legal assignment of the symbols. A proof uses three
facts: the ranges in ``Program.symbols``; a symbol that is the size of some buffer is not negative;
and, if the caller says so, the sizes of one view are at least one (a view without elements spans no
bytes and fits anywhere).

There are two methods, the cheap one first. Interval arithmetic bounds the expression. If that is
not enough, each symbol is shifted by its lower bound (``s = lower + t`` with ``t >= 0``); if no
coefficient of the result is negative, neither is the value. This proves, for example,
``s0*s0 - s0 >= 0`` for ``s0 >= 1``.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import sympy

from wrapper_ir.lines.expr import CeilDiv, Dim, FloorDiv, Mod, UnsupportedExprError, dim, substitute

if TYPE_CHECKING:
    from wrapper_ir.lines import Layout, Program

Interval: TypeAlias = tuple[int | None, int | None]
"""Inclusive bounds; ``None`` is unbounded."""

_ANY: Final[Interval] = (None, None)
_ONE: Final[Interval] = (1, 1)
_NO_NAMES: Final[frozenset[str]] = frozenset()
_USUAL: Final = 7
_LARGEST: Final = 64
"""The largest exponent that is evaluated."""


class Facts:
    """Facts about a program's symbols, with a cache of proofs."""

    def __init__(self, program: Program) -> None:
        self.ranges: dict[str, Interval] = {
            name: (info.lower, info.upper) for name, info in program.symbols.items()
        }
        for layout in program.buffers.values():
            for name in sizes_of(layout):
                lower, upper = self.ranges.get(name, _ANY)
                self.ranges[name] = max(lower or 0, 0), upper
        hints = {name: info.hint for name, info in program.symbols.items()}
        self._sample = {name: within(r, hints.get(name)) for name, r in self.ranges.items()}
        self._proved: dict[tuple[sympy.Expr, frozenset[str]], bool] = {}
        self._negative: dict[sympy.Expr, bool] = {}

    def nonnegative(self, value: Dim, nonempty: frozenset[str] = _NO_NAMES) -> bool:
        """Return whether ``value >= 0`` is proved, with symbols in ``nonempty`` at least 1."""
        if type(value) is int:
            return value >= 0
        key = (value, nonempty)
        found = self._proved.get(key)
        if found is None:
            sample = self.sample(value)
            # A counterexample saves the attempt at a proof.
            is_legal = all(self._sample.get(name, 0) >= 1 for name in nonempty)
            refuted = sample is not None and sample < 0 and is_legal
            found = not refuted and _Proof(self.ranges, nonempty).nonnegative(value)
            self._proved[key] = found
        return found

    def sample(self, value: Dim) -> int | None:
        """Evaluate for one legal assignment of the symbols; return ``None`` if that fails.

        The result can refute that something holds for all assignments. It proves nothing.
        """
        if isinstance(value, int):
            return value
        if grows(value):
            return None
        try:
            found = substitute(value, self._sample)
        except UnsupportedExprError:
            return None
        return found if type(found) is int else None

    def at_least(self, large: Dim, small: Dim, nonempty: frozenset[str] = _NO_NAMES) -> bool:
        """Return whether ``large >= small`` is proved."""
        if type(large) is int and type(small) is int:
            return large >= small
        return large == small or self.nonnegative(dim(large - small), nonempty)

    def exceeds(self, large: Dim, small: Dim, nonempty: frozenset[str] = _NO_NAMES) -> bool:
        """Return whether ``large > small`` is proved."""
        if type(large) is int and type(small) is int:
            return large > small
        return self.nonnegative(dim(large - small - 1), nonempty)

    def negative(self, value: Dim) -> bool:
        """Return whether ``value < 0`` is proved."""
        if type(value) is int:
            return value < 0
        found = self._negative.get(value)
        if found is None:
            found = self._negative[value] = self.nonnegative(dim(-value - 1))
        return found

    def fits(self, layout: Layout, capacity: Dim) -> bool:
        """Return whether a view provably ends within the first ``capacity`` bytes of storage."""
        return self.at_least(capacity, end_of(layout), sizes_of(layout))

    def sticks_out(self, layout: Layout, capacity: Dim) -> bool:
        """Return whether a view, if not empty, provably ends past ``capacity`` bytes."""
        return self.exceeds(end_of(layout), capacity, sizes_of(layout))


def grows(value: sympy.Basic) -> bool:
    """Return whether evaluation could yield numbers too large to handle in reasonable time."""
    return any(not p.exp.is_Integer or p.exp > _LARGEST for p in value.atoms(sympy.Pow))


def within(bounds: Interval, wanted: int | None) -> int:
    """Return ``wanted``, or a typical size, clamped to the bounds."""
    lower, upper = bounds
    value = _USUAL if wanted is None else wanted
    if upper is not None:
        value = min(value, upper)
    return value if lower is None else max(value, lower)


def end_of(layout: Layout) -> Dim:
    """Return the bytes from the storage's start to the view's end; 0 if a size is known to be 0."""
    if layout.symbols:
        return _symbolic_end_of(layout)
    extent = layout.extent
    return (layout.offset + extent) * layout.dtype.itemsize if extent else 0


@lru_cache(maxsize=65536)
def _symbolic_end_of(layout: Layout) -> Dim:
    extent = layout.extent
    return 0 if extent == 0 else dim((layout.offset + extent) * layout.dtype.itemsize)


def sizes_of(layout: Layout) -> frozenset[str]:
    """Return the symbols that are sizes of the layout. In a nonempty view each is at least 1."""
    if all(type(size) is int for size in layout.size):
        return _NO_NAMES
    return frozenset(size.name for size in layout.size if isinstance(size, sympy.Symbol))


def same(a: Dim, b: Dim) -> bool:
    """Return whether two dims are equal for all symbols, as far as expanding shows."""
    if type(a) is int and type(b) is int:
        return a == b
    return a == b or bool(sympy.expand(a - b) == 0)


class _Proof:
    """A proof attempt under one set of assumptions."""

    def __init__(self, ranges: dict[str, Interval], nonempty: frozenset[str]) -> None:
        self.ranges = ranges
        self.nonempty = nonempty

    def nonnegative(self, expr: sympy.Expr) -> bool:
        _, expr = sympy.expand(self.settle(expr)).primitive()
        return (
            self.is_nonnegative(expr)
            or self.by_moving(expr)
            or self.by_moving(_rounded(self.undivided(expr)))
        )

    def settle(self, expr: sympy.Expr) -> sympy.Expr:
        """Simplify each ``Max`` and ``Min`` whose order is known."""
        if not expr.args or not expr.has(sympy.Max, sympy.Min):
            return expr
        args = [self.settle(arg) for arg in expr.args]
        if isinstance(expr, (sympy.Max, sympy.Min)):
            sign = 1 if isinstance(expr, sympy.Max) else -1
            for arg in tuple(args):
                rivals = [other for other in args if other is not arg]
                if any(self.is_nonnegative(sign * (rival - arg)) for rival in rivals):
                    args = rivals
        return expr.func(*args)

    def is_nonnegative(self, expr: sympy.Expr) -> bool:
        """Return whether interval arithmetic alone proves it."""
        lower, _ = self.interval(sympy.expand(expr))
        return lower is not None and lower >= 0

    def undivided(self, expr: sympy.Expr) -> sympy.Expr:
        """Return a lower bound that has fractions in place of integer quotients.

        ``a // b <= a / b`` bounds subtracted terms, ``a // b >= (a - b + 1) / b`` added ones.
        """
        terms = (self.undivided_term(term) for term in sympy.Add.make_args(expr))
        return sympy.expand(sympy.Add(*terms))

    def undivided_term(self, term: sympy.Expr) -> sympy.Expr:
        coefficient, rest = term.as_coeff_Mul()
        factors = list(sympy.Mul.make_args(rest))
        for at, factor in enumerate(factors):
            others = factors[:at] + factors[at + 1 :]
            divides = isinstance(factor, (FloorDiv, CeilDiv)) and self.cancels(
                factor.args[1], others
            )
            if divides and all(map(self.is_nonnegative, others)):
                a, b = factor.args
                least, most = (1 - b, 0) if isinstance(factor, FloorDiv) else (0, b - 1)
                # A subtracted term needs an upper bound.
                slack = least if coefficient > 0 else most
                return coefficient * (a + slack) / b * sympy.Mul(*others)
        return term

    def cancels(self, divisor: sympy.Expr, factors: list[sympy.Expr]) -> bool:
        """Return whether a divisor is positive, and a number or a factor of the product."""
        if isinstance(divisor, sympy.Integer):
            return bool(divisor > 0)
        _, left = sympy.fraction(sympy.Mul(*factors) / divisor)
        return bool(left.is_number) and self.is_nonnegative(divisor - 1)

    def by_moving(self, expr: sympy.Expr) -> bool:
        """Shift each atom by its lower bound; return whether no coefficient is then negative."""
        moves = {}
        for atom in _atoms(expr):
            lower, _ = self.interval(atom)
            if lower is None:
                return False
            moves[atom] = lower + sympy.Dummy(integer=True, nonnegative=True)
        moved = sympy.expand(expr.xreplace(moves))
        terms = sympy.Add.make_args(moved)
        return all(term.as_coeff_Mul()[0] >= 0 for term in terms)

    def interval(self, expr: sympy.Basic) -> Interval:
        """Return bounds of an integer expression."""
        if isinstance(expr, sympy.Integer):
            return int(expr), int(expr)
        if isinstance(expr, sympy.Symbol):
            lower, upper = self.ranges.get(expr.name, _ANY)
            if expr.name in self.nonempty:
                lower = max(lower or 1, 1)
            return lower, upper
        return self.of_function(expr)

    def of_function(self, expr: sympy.Basic) -> Interval:
        parts = [self.interval(arg) for arg in expr.args]
        match expr:
            case sympy.Add():
                return _sum(parts)
            case sympy.Mul():
                return reduce(_times, parts)
            case sympy.Pow() if isinstance(expr.exp, sympy.Integer) and 0 <= int(expr.exp) <= 16:
                return _power(parts[0], int(expr.exp))
            case sympy.Max():
                return _extreme(parts, largest=True)
            case sympy.Min():
                return _extreme(parts, largest=False)
            case FloorDiv() | CeilDiv():
                return _quotient(expr, parts)
            case Mod() if isinstance(expr.args[1], sympy.Integer) and int(expr.args[1]) > 0:
                return 0, int(expr.args[1]) - 1
            case _:
                return _ANY


def _sum(parts: list[Interval]) -> Interval:
    lowers, uppers = [p[0] for p in parts], [p[1] for p in parts]
    return (
        None if None in lowers else sum(v for v in lowers if v is not None),
        None if None in uppers else sum(v for v in uppers if v is not None),
    )


def _times(a: Interval, b: Interval) -> Interval:
    if (a[0] or 0) >= 0 and a[0] is not None and (b[0] or 0) >= 0 and b[0] is not None:
        return a[0] * b[0], None if a[1] is None or b[1] is None else a[1] * b[1]
    if a[0] == a[1] and a[0] is not None:
        return _scaled(b, a[0])
    if b[0] == b[1] and b[0] is not None:
        return _scaled(a, b[0])
    if None in a or None in b:
        return _ANY
    corners = [x * y for x in a for y in b if x is not None and y is not None]
    return min(corners), max(corners)


def _scaled(part: Interval, factor: int) -> Interval:
    if factor == 0:
        return 0, 0
    ends = [None if end is None else end * factor for end in part]
    return (ends[0], ends[1]) if factor > 0 else (ends[1], ends[0])


def _power(part: Interval, exponent: int) -> Interval:
    result = reduce(_times, [part] * exponent, _ONE)
    return (max(result[0] or 0, 0), result[1]) if exponent % 2 == 0 else result


def _extreme(parts: list[Interval], *, largest: bool) -> Interval:
    """Return bounds of a maximum or a minimum."""
    pick = max if largest else min
    sides: list[int | None] = []
    for side in (0, 1):
        known = [p[side] for p in parts if p[side] is not None]
        # A single bounded argument bounds a maximum from below and a minimum from above.
        enough = bool(known) if side == (0 if largest else 1) else len(known) == len(parts)
        sides.append(pick(k for k in known if k is not None) if enough else None)
    return sides[0], sides[1]


def _quotient(expr: sympy.Basic, parts: list[Interval]) -> Interval:
    divisor = expr.args[1]
    if not isinstance(divisor, sympy.Integer) or int(divisor) <= 0:
        both = parts[0][0], parts[1][0]
        positive = both[0] is not None and both[0] >= 0 and both[1] is not None and both[1] > 0
        return (0, parts[0][1]) if positive else _ANY
    by = int(divisor)
    sign = 1 if isinstance(expr, FloorDiv) else -1
    lower, upper = (None if end is None else sign * (sign * end // by) for end in parts[0])
    return lower, upper


def _rounded(bound: sympy.Expr) -> sympy.Expr:
    """Return what is not negative if an integer with this lower bound is not.

    An integer of at least -1/2 is at least 0. The bound is polynomial, with fractions.
    """
    terms = sympy.Add.make_args(bound)
    denominator = sympy.ilcm(1, *(term.as_coeff_Mul()[0].q for term in terms))
    return sympy.expand(denominator * bound + denominator - 1)


def _atoms(expr: sympy.Basic) -> list[sympy.Basic]:
    """Return the symbols and function applications of a polynomial, in a fixed order."""
    found: dict[sympy.Basic, None] = {}
    todo = [expr]
    while todo:
        part = todo.pop()
        if isinstance(part, (sympy.Add, sympy.Mul)) or (
            isinstance(part, sympy.Pow) and isinstance(part.exp, sympy.Integer)
        ):
            todo.extend(part.args)
        elif not isinstance(part, sympy.Number):
            found[part] = None
    return list(found)
