"""Pools: storages placed in arenas instead of allocated one by one.

Each region is planned on its own, inner ones first. Offsets are numbers if all sizes are known,
else expressions (:mod:`wrapper_ir.planning.relations`). Lines keep their order: each allocation
becomes a slice; an arena is allocated before its first slice and freed after its last.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.proof import Facts
from wrapper_ir.lines.expr import ToFloat
from wrapper_ir.lines.traits import allocates_one
from wrapper_ir.planning.arenas import Cut, leases
from wrapper_ir.planning.offsets import assign_offsets, check_offsets
from wrapper_ir.planning.relations import Ground, Units, expression, linear, placed, relations
from wrapper_ir.planning.sizes import Rounded, Sizes, alignment_of

if TYPE_CHECKING:
    from wrapper_ir.planning.arenas import Lease, Tenant

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
        edit.before[begin].append(
            ir.AllocatePool(name, lease.place.memory, space=lease.place.space)
        )
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
        return [
            ir.AssertSymbol(sympy.Le(_floating(nbytes), most), "the buffers fit into memory")
            for nbytes in largest
            if not self.facts.at_least(most, nbytes)
        ]


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
