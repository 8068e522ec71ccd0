"""What can lie in an arena: a region's storages by device, memory, stream and symbols.

A storage can if the region allocates it plainly and frees it. What stays outside:

- what leaves the region as a result, or may be a view of what does: an arena would live as long;
- what asks for zeroed contents, or has no bytes;
- what calls on several streams touch: the order of lines is not their order;
- what a collective works on: it may go on after the call returned.

An arena is allocated where its first storage is. So the symbols in its sizes must be bound by then;
what depends on numbers bound further down goes into a later arena.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.lines import Allocate, Device, Dim, ExternKernel, MemoryKind, effects
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.planning.liveness import BEFORE, Life, Liveness
from wrapper_ir.planning.sizes import nbytes_of
from wrapper_ir.planning.timeline import held_bytes
from wrapper_ir.planning.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import Program, Region
    from wrapper_ir.planning.sizes import Sizes

_POOLED: Final = (MemoryKind.DEFAULT, MemoryKind.PINNED)
_COLLECTIVES: Final = ("_c10d_functional::", "c10d::", "c10d_functional::")
_USUAL_STREAM: Final = frozenset((0,))


class Place(NamedTuple):
    """Where storage may be: what the storages of one arena have in common."""

    device: Device
    memory: MemoryKind
    stream: frozenset[int]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A storage that can lie in an arena, from its allocation to its end under the last name."""

    name: str
    """The buffer that is allocated."""
    start: int
    """The line that allocates it."""
    end: int
    """The line that frees it."""
    nbytes: Dim


@dataclass(frozen=True, slots=True)
class Lease:
    """Storages that go into one arena, in the order of their allocation."""

    place: Place
    tenants: tuple[Tenant, ...]


class Cut(enum.Enum):
    """How long an arena is there."""

    WHOLE = "whole"
    """From the first storage of its place to the last."""
    IDLE = "idle"
    """Until there is nothing in it."""
    WINDOWS = "windows"
    """As long as it does not raise the peak (:mod:`wrapper_ir.planning.windows`)."""


def leases(region: Region, program: Program, sizes: Sizes, cut: Cut) -> list[Lease]:
    """The arenas that a region could have, each for two storages at least.

    Args:
        region: Lines with explicit ends.
        program: The program it is from.
        sizes: Bytes at the hints, rounded up.
        cut: How long an arena is there.
    """
    found: dict[Place, list[Tenant]] = {}
    for place, tenant in _tenants(region, program):
        found.setdefault(place, []).append(tenant)
    bound = _bindings(region, program)
    windows = None
    if cut is Cut.WINDOWS and found:
        liveness = Liveness(region, program)
        windows = Windows(held_bytes(region, liveness, program, sizes))
    made = []
    for place, tenants in found.items():
        for group in _by_binding(tenants, bound):
            if windows is not None:
                parts = windows.cut(group, {tenant: sizes.of(tenant.name) for tenant in group})
            else:
                parts = _split(group) if cut is Cut.IDLE else [group]
            made += [Lease(place, tuple(part)) for part in parts if len(part) > 1]
    return sorted(made, key=lambda lease: lease.tenants[0].start)


def _tenants(region: Region, program: Program) -> Iterable[tuple[Place, Tenant]]:
    liveness = Liveness(region, program)
    busy = _kept_busy(region, program, liveness)
    chains: dict[Life, list[Life]] = {}
    for life in liveness.lives:
        chains.setdefault(life.first, []).append(life)
    for first, chain in chains.items():
        line = region.body[first.start] if first.start != BEFORE else None
        last = chain[-1]
        if not isinstance(line, Allocate) or line.zeroed or line.memory not in _POOLED:
            continue
        if last.end is None or any(life.leaves or life in busy for life in chain):
            continue
        streams = frozenset().union(*(life.streams for life in chain)) or _USUAL_STREAM
        layout = program.buffers[first.owner]
        nbytes = nbytes_of(layout)
        if nbytes != 0 and len(streams) == 1:
            place = Place(layout.device, line.memory, streams)
            yield place, Tenant(first.owner, first.start, last.end, nbytes)


def _kept_busy(region: Region, program: Program, liveness: Liveness) -> set[Life]:
    """Storage that something may work on after the call that was given it."""
    found: set[Life] = set()
    for line in region.body:
        if isinstance(line, ExternKernel) and line.op.startswith(_COLLECTIVES):
            for name in (*effects(line, program).touched, *effects(line, program).defines):
                found.update(liveness.of(name))
    return found


def _bindings(region: Region, program: Program) -> dict[str, int]:
    """Where in the region each symbol is bound; those bound before it are not listed."""
    return {
        name: position
        for position, line in enumerate(region.body)
        for name in effects(line, program).defines_symbols
    }


def _by_binding(tenants: list[Tenant], bound: dict[str, int]) -> list[list[Tenant]]:
    """Cut up so that each part's sizes are known where its first storage is allocated."""
    waiting = sorted(tenants, key=lambda tenant: tenant.start)
    groups = []
    while waiting:
        begin = waiting[0].start
        group: list[Tenant] = []
        later: list[Tenant] = []
        for tenant in waiting:
            names = free_symbols(tenant.nbytes)
            known = all(bound.get(name, BEFORE) < begin for name in names)
            (group if known else later).append(tenant)
        if not group:  # a size that is bound behind its own allocation: the verifier refuses that
            break
        groups.append(group)
        waiting = later
    return groups


def _split(tenants: list[Tenant]) -> list[list[Tenant]]:
    """Cut where nothing is alive."""
    parts: list[list[Tenant]] = []
    until = BEFORE
    for tenant in tenants:
        if tenant.start >= until:
            parts.append([])
        parts[-1].append(tenant)
        until = max(until, tenant.end)
    return parts
