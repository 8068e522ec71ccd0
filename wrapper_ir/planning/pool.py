"""Pools: storages placed in arenas instead of allocated one by one.

Each region is planned on its own, inner ones first. Offsets are numbers if all sizes are known,
else expressions, as sums of products of symbols. Lines keep their order: each allocation
becomes a slice; an arena is allocated before its first slice and freed after its last.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.proof import Facts
from wrapper_ir.lines.expr import CeilDiv, ToFloat
from wrapper_ir.lines.traits import allocates_one
from wrapper_ir.planning.arenas import Cut, Lease, Tenant, leases
from wrapper_ir.planning.intervals import Interval, check_offsets
from wrapper_ir.planning.offsets import assign_offsets
from wrapper_ir.planning.sizes import Rounded, Sizes, alignment_of

_MOST_BYTES: Final = 2**62


class Pooled(NamedTuple):
    """A program with pools."""

    program: ir.Program
    winners: dict[str, str]
    """The planner that placed the slices of each pool."""


def pool_storage(program: ir.Program, cut: Cut = Cut.WHOLE) -> Pooled:
    """Place plain allocations in arenas.

    Expects explicit ends (:func:`~wrapper_ir.planning.insert_frees`). Storage that no line frees
    stays as it is, as does storage that would be alone in its arena, unless the arena is kept.

    Args:
        program: The program.
        cut: The lifetime of arenas.
    """
    run = _Pooling(program)
    region = run.region(program.region, cut)
    if not run.winners:
        return Pooled(program, {})
    changed = program.replace(
        body=region.body,
        buffers=program.buffers.set(**run.buffers),
        symbols=program.symbols.set(**run.symbols),
    )
    return Pooled(changed, run.winners)


class _Pooling:
    """The state of one run over a program."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.sizes = Sizes(program)
        self.rounded = Rounded(program)
        self.facts = Facts(program)
        self.ground = Ground(program)
        self.buffers: dict[str, ir.Layout] = {}
        self.symbols: dict[str, ir.SymbolInfo] = {}
        self.winners: dict[str, str] = {}
        self._used = {*program.buffers, *program.symbols, *program.kernels}

    def fresh(self, prefix: str) -> str:
        """Return an unused name: the prefix and a number."""
        number = 0
        while (name := f"{prefix}{number}") in self._used:
            number += 1
        self._used.add(name)
        return name

    def region(self, region: ir.Region, cut: Cut) -> ir.Region:
        """Return a region with its arenas, nested regions included."""
        inside = partial(self.region, cut=cut.inside)
        body = tuple(ir.map_regions(line, inside) for line in region.body)
        inner = dataclasses.replace(region, body=body)
        edit = _Edit()
        for lease in leases(inner, self.program, self.rounded, cut):
            self.arena(lease, edit)
        return dataclasses.replace(inner, body=tuple(edit.applied(body)))

    def arena(self, lease: Lease, edit: _Edit) -> None:
        """Plan one arena and record the edits of lines."""
        tenants = lease.tenants
        begin, end = tenants[0].start, max(tenant.end for tenant in tenants)
        name, alignment = self.fresh("pool"), alignment_of(lease.device)
        # A storage with no bytes at the hints still needs an offset.
        intervals = [(t.start, t.end, max(self.sizes.value(t.nbytes), 1)) for t in tenants]
        plan = assign_offsets(intervals, alignment)
        check_offsets(intervals, plan.offsets, alignment=alignment, height=plan.height)
        offsets: list[ir.Dim] = list(plan.offsets)
        height: ir.Dim = plan.height
        if any(type(tenant.nbytes) is not int for tenant in tenants):
            edit.before[begin] += self.checks(tenants)

            def compute(kind: str, value: ir.Dim) -> str:
                return self.compute(f"{name}_{kind}", value, edit.before[begin])

            # Symbols are bound before this arena and so before all later arenas of this region.
            units = Units(self.ground, alignment)
            sizes = [units.of(tenant.nbytes, compute) for tenant in tenants]
            lows, top = placed(relations(intervals, plan.offsets), sizes, units, compute)
            offsets = [expression(low, alignment) for low in lows]
            height = ir.dim(top * alignment)
        self.buffers[name] = ir.Layout(ir.DType.UINT8, lease.device, (height,), (1,))
        memory, space = lease.place
        edit.before[begin].append(ir.AllocatePool(name, memory, space=space))
        for tenant, offset in zip(tenants, offsets, strict=True):
            edit.slices[tenant.start] = (name, offset)
        edit.behind[end].append(ir.Free(name))
        self.winners[name] = plan.winner

    def compute(self, wanted: str, value: ir.Dim, lines: list[ir.AnyLine]) -> str:
        """Append a line that binds a new symbol to an expression, and return its name."""
        name = self.fresh(f"{wanted}_")
        hint = self.sizes.value(value)
        self.sizes.know(name, hint)
        self.symbols[name] = ir.SymbolInfo(lower=0, hint=hint)
        lines.append(ir.ComputeSymbol(name, value))
        return name

    def checks(self, tenants: tuple[Tenant, ...]) -> list[ir.AnyLine]:
        """Return assertions that the sum of all sizes fits into 64 bits, unless that is proved.

        They use floating point, which does not wrap, and skip sizes that another always exceeds.
        """
        most = _MOST_BYTES // len(tenants)
        sizes = dict.fromkeys(tenant.nbytes for tenant in tenants)
        largest = map(expression, self.ground.largest(map(linear, sizes)))
        unproved = [nbytes for nbytes in largest if not self.facts.at_least(most, nbytes)]
        conditions = [sympy.Le(_floating(nbytes), most) for nbytes in unproved]
        return [ir.AssertSymbol(each, "the buffers fit into memory") for each in conditions]


def _floating(nbytes: sympy.Expr) -> sympy.Expr:
    """Convert a polynomial to floating point; return anything else unchanged."""
    if nbytes.atoms(sympy.Function):
        return nbytes
    return nbytes.xreplace({s: ToFloat(s) for s in nbytes.free_symbols})


class _Edit:
    """Edits to the lines of one region, by position."""

    def __init__(self) -> None:
        self.before: defaultdict[int, list[ir.AnyLine]] = defaultdict(list)
        self.behind: defaultdict[int, list[ir.AnyLine]] = defaultdict(list)
        self.slices: dict[int, tuple[str, ir.Dim]] = {}

    def applied(self, body: tuple[ir.AnyLine, ...]) -> list[ir.AnyLine]:
        """Return the edited lines."""
        result: list[ir.AnyLine] = []
        for position, line in enumerate(body):
            result += self.before.get(position, ())
            place = self.slices.get(position)
            if place is not None and allocates_one(line):
                result.append(ir.AllocateFromPool(line.out, *place, origin=line.origin))
            else:
                result.append(line)
            result += self.behind.get(position, ())
        return result


# Symbolic sizes and offsets: sums of products of symbols, as coefficients by term, which are fast
# to add and compare; sympy is a thousand times slower. Comparing coefficients needs terms that are
# never negative, which :class:`Ground` knows.

Linear: TypeAlias = dict[sympy.Expr, int]
"""The coefficient of each term; the constant's term is 1."""

_DEPTH: Final = 3
"""The most nested symbols that a comparison expands."""


def linear(value: ir.Dim) -> Linear:
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


def expression(value: Linear, factor: int = 1) -> ir.Dim:
    """Convert back to an expression, times a factor."""
    terms = (factor * coefficient * term for term, coefficient in value.items())
    return ir.dim(sympy.Add(*terms))


class Ground:
    """Terms that are never negative."""

    def __init__(self, program: ir.Program) -> None:
        lower = {n: info.lower for n, info in program.symbols.items() if info.lower is not None}
        self._counts = {name for name, least in lower.items() if least >= 0}
        for layout in program.buffers.values():
            self._counts |= {s.name for s in layout.size if isinstance(s, sympy.Symbol)}
        self._known: dict[sympy.Expr, bool] = {sympy.S.One: True}
        self._floors: dict[sympy.Expr, list[Linear]] = {}

    def note(self, name: str, floors: Iterable[Linear] = ()) -> None:
        """Record that a symbol is never negative and never less than any of ``floors``."""
        self._counts.add(name)
        self._floors[ir.symbol(name)] = list(floors)

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

Compute: TypeAlias = Callable[[str, ir.Dim], str]

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
    events = [(lower, 1, n) for n, (lower, _, _) in enumerate(intervals)]
    events += [(upper, 0, n) for n, (_, upper, _) in enumerate(intervals)]
    alive: list[tuple[int, int]] = []
    for _, begins, n in sorted(events):
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
        self._known: dict[ir.Dim, Linear] = {}

    def of(self, nbytes: ir.Dim, compute: Compute) -> Linear:
        """Return the units that hold ``nbytes``; unless a sum of products, they get a symbol."""
        found = self._known.get(nbytes)
        if found is None:
            found = self._known[nbytes] = self._of(nbytes, compute)
        return found

    def _of(self, nbytes: ir.Dim, compute: Compute) -> Linear:
        terms = linear(nbytes)
        is_count = self.ground.at_least(terms, {})
        if is_count and all(part % self.alignment == 0 for part in terms.values()):
            return {term: part // self.alignment for term, part in terms.items()}
        if type(nbytes) is int:
            return linear(-(-nbytes // self.alignment))
        units = CeilDiv(nbytes, self.alignment)
        return self.named("size", units if is_count else sympy.Max(units, 0), compute)

    def named(
        self, kind: str, value: ir.Dim, compute: Compute, floors: Sequence[Linear] = ()
    ) -> Linear:
        """Return a symbol for an expression that is never less than 0 or ``floors``."""
        name = compute(kind, ir.dim(value))
        self.ground.note(name, floors)
        return {ir.symbol(name): 1}


def placed(
    related: Relations, sizes: Sequence[Linear], units: Units, compute: Compute
) -> tuple[list[Linear], ir.Dim]:
    """Return the offsets and the height of an arena, in units, from the vertical order."""
    lows: list[Linear] = [{} for _ in sizes]
    known: dict[ir.Dim, Linear] = {}
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


def _maximum(values: list[Linear]) -> ir.Dim:
    found = [expression(value) for value in values]
    return found[0] if len(found) == 1 else ir.dim(sympy.Max(*found))
