"""Storages of a region that can share an arena, grouped by device, memory and symbols.

A storage can be in an arena if a plain allocation makes it and the region frees it. These cannot:

- results of the region and possible aliases of them, since the arena would live as long;
- storage that must be zeroed, or that has no bytes;
- storage of another stream than the caller's, of a memory pool, or used on several streams, since
  program order does not order their work;
- storage that a collective works on after its call returns, and storage of ops through which ranks
  talk and of which nothing is known;
- memory that peers address: some ops look for it where its allocation begins.

An arena is allocated where its first storage is. The symbols in its sizes must be bound by then;
storage whose size is bound later goes into a later arena.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.analysis.collectives import (
    facts_of,
    is_collective,
    leaves_peers_running,
    waits_for_work,
)
from wrapper_ir.analysis.kept import can_keep
from wrapper_ir.analysis.liveness import BEFORE, Life, Liveness
from wrapper_ir.lines import Device, Dim, MemoryKind, Place, Program, Region, effects, regions_of
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.traits import allocates_one, op_of
from wrapper_ir.planning.sizes import Sizes, held_bytes, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Windows: ranges of lines in which an arena does not raise the peak.
#
# An arena is held as a whole from its first storage to its last, and its unused part is lost to
# others. If the program's peak comes from storage that no arena can hold (a result, or the result
# of a library op), one arena over the whole program raises it. So find windows such that an arena
# for the storage that begins and ends inside, together with everything else, never exceeds the
# peak. Storage that crosses the end of a window stays outside or goes into a later one.
#
# The search is greedy: from each storage on, it takes the longest of a few lengths that works.
# Symbolic sizes are taken at the hints.

_FEW: Final = 400
"""With more storages than this, windows have at most ``_LONGEST`` lines."""

_LONGEST: Final = 256


@dataclass(frozen=True, slots=True)
class Tenant:
    """A storage that can be in an arena, from its allocation to its end under its last name."""

    name: str
    """The buffer that is allocated."""
    start: int
    """The line that allocates it."""
    end: int
    """The line that frees it."""
    nbytes: Dim


class Windows:
    """The distance to the peak at each line, given the bytes held if storage is freed at once."""

    def __init__(self, held: Sequence[int]) -> None:
        peak = max(held, default=0)
        self.room: list[int] = [peak - nbytes for nbytes in held]

    def cut(self, tenants: Sequence[Tenant], nbytes: dict[Tenant, int]) -> list[list[Tenant]]:
        """Return groups of storages that can have an arena each; some storages are in none."""
        waiting = sorted(tenants, key=lambda tenant: (tenant.start, tenant.end))
        longest = len(self.room) if len(waiting) <= _FEW else _LONGEST
        groups = []
        while waiting:
            begin = waiting[0].start
            near = [t for t in waiting if t.end <= begin + longest] if longest else waiting
            group = self._longest(begin, near, nbytes)
            if group:
                groups.append(group)
                taken = set(group)
                waiting = [tenant for tenant in waiting if tenant not in taken]
            else:
                waiting = waiting[1:]
        return groups

    def _longest(self, begin: int, among: list[Tenant], nbytes: dict[Tenant, int]) -> list[Tenant]:
        """Return the tenants of the longest window from ``begin`` that does not raise the peak."""
        for end in _ends(begin, max((t.end for t in among), default=begin)):
            group = [tenant for tenant in among if tenant.end <= end]
            if len(group) < 2:
                return []
            lost = self._lost(group, nbytes)
            first = group[0].start
            if all(more <= self.room[first + n] for n, more in enumerate(lost)):
                for n, more in enumerate(lost):
                    self.room[first + n] -= more
                return group
        return []

    def _lost(self, group: list[Tenant], nbytes: dict[Tenant, int]) -> list[int]:
        """Return the unused bytes of an arena at each line of its life."""
        first, last = group[0].start, max(tenant.end for tenant in group)
        changes = [0] * (last - first + 1)
        for tenant in group:
            changes[tenant.start - first] += nbytes[tenant]
            changes[tenant.end - first] -= nbytes[tenant]
        used = list(accumulate(changes[:-1]))
        height = max(used)
        return [height - now for now in used]


def _ends(begin: int, end: int) -> Iterator[int]:
    """Yield ends of windows to try, the last first; each window is a quarter shorter."""
    length = end - begin
    while length > 1:
        yield begin + length
        length = length * 3 // 4


Where: TypeAlias = tuple[Device, Place]


@dataclass(frozen=True, slots=True)
class Lease:
    """The storages of one arena, in order of allocation."""

    device: Device
    place: Place
    tenants: tuple[Tenant, ...]


class Cut(enum.Enum):
    """The lifetime of an arena."""

    WHOLE = "whole"
    """From the first storage to the last."""
    IDLE = "idle"
    """Until nothing in it is alive."""
    WINDOWS = "windows"
    """As long as it does not raise the peak (:mod:`wrapper_ir.planning.arenas`)."""
    KEPT = "kept"
    """For good where arenas can be kept between calls, elsewhere in windows."""

    @property
    def inside(self) -> Cut:
        """The cut for arenas of nested regions, which live for one run of the region."""
        return Cut.WINDOWS if self is Cut.KEPT else self


def leases(region: Region, program: Program, sizes: Sizes, cut: Cut) -> list[Lease]:
    """Return the arenas that a region, whose ends are explicit, could have.

    Each has at least two storages, unless it is kept: one alone gains nothing from an arena.
    """
    found: dict[Where, list[Tenant]] = {}
    for where, tenant in _tenants(region, program, cut):
        found.setdefault(where, []).append(tenant)
    bound = _bindings(region, program)
    windows = None
    if cut in (Cut.WINDOWS, Cut.KEPT) and found:
        liveness = Liveness(region, program)
        windows = Windows(held_bytes(region, liveness, program, sizes))
    made = []
    for where, tenants in found.items():
        is_kept = cut is Cut.KEPT and can_keep(*where)
        for group in _by_binding(tenants, bound):
            if windows is not None and not is_kept:
                parts = windows.cut(group, {tenant: sizes.of(tenant.name) for tenant in group})
            else:
                parts = _split(group) if cut is Cut.IDLE else [group]
            made += [Lease(*where, tuple(part)) for part in parts if len(part) > 1 or is_kept]
    return sorted(made, key=lambda lease: lease.tenants[0].start)


def _tenants(region: Region, program: Program, cut: Cut) -> Iterator[tuple[Where, Tenant]]:
    judge = Judge(region, program, is_kept=cut is Cut.KEPT)
    for first, chain in judge.chains.items():
        end = chain[-1].end
        if end is None or judge.why_outside(chain):
            continue
        layout = program.buffers[first.owner]
        tenant = Tenant(first.owner, first.start, end, nbytes_of(layout))
        yield (layout.device, first.place), tenant


class Judge:
    """The rules that decide which storages of a region with explicit ends are in an arena."""

    def __init__(self, region: Region, program: Program, *, is_kept: bool) -> None:
        self._region = region
        self._program = program
        liveness = Liveness(region, program)
        self._busy = _kept_busy(region, program, liveness)
        self._is_kept = is_kept
        self.chains: dict[Life, list[Life]] = liveness.chains

    def why_outside(self, chain: list[Life]) -> str:
        """Return why a storage cannot be in an arena, as a predicate; empty if it can."""
        first = chain[0]
        line = self._region.body[first.start] if first.start != BEFORE else None
        if any(life.leaves for life in chain):
            return "is a result, or may be part of one"
        if not allocates_one(line):
            return "is made by a region" if line and regions_of(line) else "is made by a library op"
        if line.zeroed:
            return "must be zeroed"
        if self._program.buffers[first.owner].is_opaque:
            return "has a layout that only the device understands"
        if nbytes_of(self._program.buffers[first.owner]) == 0:
            return "has no bytes"
        if first.place.memory is MemoryKind.SYMMETRIC:
            return "is addressed by peers, some of which look for it where its allocation begins"
        return self._why_shared(chain)

    def _why_shared(self, chain: list[Life]) -> str:
        if any(life in self._busy for life in chain):
            return "is worked on by a collective"
        if any(life.is_held for life in chain):
            return "may be held by an object"
        if self._is_kept and any(life.escapes for life in chain):
            return "is passed to a region or a third-party op, which may hold on to it"
        if chain[0].mempool:
            return "is from a user memory pool"
        if not all(life.is_callers for life in chain):
            return "is used on streams besides the caller's"
        return "" if chain[-1].end is not None else "is never freed"


def _kept_busy(region: Region, program: Program, liveness: Liveness) -> set[Life]:
    """Return the storages that asynchronous work may use after the call that started it.

    Where that is so until a later op, lives last until then (:mod:`wrapper_ir.analysis.liveness`).
    """
    found: set[Life] = set()
    for line in region.body:
        facts = facts_of(op_of(line))
        is_done = leaves_peers_running(line) or (facts is not None and not facts.in_flight)
        if is_collective(line) and (waits_for_work(line) or not is_done):
            for name in (*effects(line, program).touched, *effects(line, program).defines):
                found.update(liveness.of(name))
    return found


def _bindings(region: Region, program: Program) -> dict[str, int]:
    """Return the line of the region that binds each symbol; earlier bindings are left out."""
    bound = [effects(line, program).defines_symbols for line in region.body]
    return {name: position for position, names in enumerate(bound) for name in names}


def _by_binding(tenants: list[Tenant], bound: dict[str, int]) -> list[list[Tenant]]:
    """Split so that the sizes of each part are known where its first storage is allocated."""
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
        if not group:  # a size bound after its own allocation, which the verifier refuses
            break
        groups.append(group)
        waiting = later
    return groups


def _split(tenants: list[Tenant]) -> list[list[Tenant]]:
    """Split where nothing is alive."""
    parts: list[list[Tenant]] = []
    until = BEFORE
    for tenant in tenants:
        if tenant.start >= until:
            parts.append([])
        parts[-1].append(tenant)
        until = max(until, tenant.end)
    return parts
