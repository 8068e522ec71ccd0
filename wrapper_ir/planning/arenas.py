"""Storages that may share an arena: those of a region, by device, memory and symbols.

A storage can if the region allocates it plainly and frees it. What stays outside:

- what leaves the region as a result, or may be a view of what does: an arena would live as long;
- what asks for zeroed contents, or has no bytes;
- what is from a stream besides the caller's or from a memory pool, or what calls on several streams
  touch: the order of lines is not their order;
- what a collective works on: it may go on after the call returned.

An arena is allocated where its first storage is. So the symbols in its sizes must be bound by then;
what depends on numbers bound further down goes into a later arena.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import BEFORE, Life, Liveness
from wrapper_ir.analysis.ops import is_collective
from wrapper_ir.lines import Device, Dim, MemoryKind, Place, effects, regions_of
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.traits import allocates_one
from wrapper_ir.planning.kept import can_keep
from wrapper_ir.planning.sizes import held_bytes, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wrapper_ir.lines import Program, Region
    from wrapper_ir.planning.sizes import Sizes


# Windows: stretches of the program in which an arena does not raise the peak.
#
# An arena is held as a whole from its first storage to its last. While less is alive in it than
# fits, the rest is lost to others, and where the program's peak lies in something that no arena can
# hold (a result, or what a library op allocates), an arena over all of the program raises it. So
# look for windows of time such that an arena for what begins and ends inside holds, beside all
# else, never more than the peak. What crosses a window's end stays as it is, or goes into a later
# window.
#
# The search is greedy and counted in lines: from each storage on the longest of a few lengths that
# does. It is made at the hints where sizes are symbolic.

_FEW: Final = 400
"""Storages: with more, windows are at most ``_LONGEST`` lines."""

_LONGEST: Final = 256


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


class Windows:
    """The room that is left beside the peak, line by line.

    Args:
        held: Bytes that are held while each line runs, when storage is freed after its last use.
    """

    def __init__(self, held: Sequence[int]) -> None:
        peak = max(held, default=0)
        self.room = [peak - nbytes for nbytes in held]

    def cut(self, tenants: Sequence[Tenant], nbytes: dict[Tenant, int]) -> list[list[Tenant]]:
        """Groups of storages that can have an arena each; those left over are in none."""
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

    def _longest(
        self, begin: int, tenants: list[Tenant], nbytes: dict[Tenant, int]
    ) -> list[Tenant]:
        """Return the longest run of tenants from ``begin`` on that fits into the window."""
        for end in _ends(begin, max((t.end for t in tenants), default=begin)):
            group = [tenant for tenant in tenants if tenant.end <= end]
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
        """Bytes of an arena that are not in use, for each line in which it is there."""
        first, last = group[0].start, max(tenant.end for tenant in group)
        changes = [0] * (last - first + 1)
        for tenant in group:
            changes[tenant.start - first] += nbytes[tenant]
            changes[tenant.end - first] -= nbytes[tenant]
        alive, used = 0, []
        for change in changes[:-1]:
            alive += change
            used.append(alive)
        height = max(used)
        return [height - now for now in used]


def _ends(begin: int, end: int) -> Iterator[int]:
    """Ends of windows to try, the last first, each time a quarter less."""
    length = end - begin
    while length > 1:
        yield begin + length
        length = length * 3 // 4


_POOLED: Final = (MemoryKind.DEFAULT, MemoryKind.PINNED)
_CALLERS: Final = frozenset((0,))


@dataclass(frozen=True, slots=True)
class Lease:
    """Storages that go into one arena, in the order of their allocation."""

    device: Device
    place: Place
    tenants: tuple[Tenant, ...]


class Cut(enum.Enum):
    """Lifetime of an arena."""

    WHOLE = "whole"
    """From the first storage of its place to the last."""
    IDLE = "idle"
    """Until there is nothing in it."""
    WINDOWS = "windows"
    """As long as it does not raise the peak (:mod:`wrapper_ir.planning.arenas`)."""
    KEPT = "kept"
    """For good, where arenas can be kept from call to call; elsewhere in windows."""

    @property
    def inside(self) -> Cut:
        """Return the cut for arenas of regions, which last for one run of the region."""
        return Cut.WINDOWS if self is Cut.KEPT else self


def leases(region: Region, program: Program, sizes: Sizes, cut: Cut) -> list[Lease]:
    """The arenas that a region could have.

    Each is for two storages at least: one alone gains by an arena only if that is kept.

    Args:
        region: Lines with explicit ends.
        program: The program it is from.
        sizes: Bytes at the hints, rounded up.
        cut: How long an arena is there.
    """
    found: dict[tuple[Device, Place], list[Tenant]] = {}
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


def _tenants(
    region: Region, program: Program, cut: Cut
) -> Iterable[tuple[tuple[Device, Place], Tenant]]:
    judge = Judge(region, program, is_kept=cut is Cut.KEPT)
    for first, chain in judge.chains.items():
        end = chain[-1].end
        if end is None or judge.why_outside(chain):
            continue
        layout = program.buffers[first.owner]
        tenant = Tenant(first.owner, first.start, end, nbytes_of(layout))
        yield (layout.device, first.place), tenant


class Judge:
    """Says which storages of a region can lie in an arena.

    Args:
        region: Lines with explicit ends.
        program: The program it is from.
        is_kept: Whether arenas may outlive the call.
    """

    def __init__(self, region: Region, program: Program, *, is_kept: bool) -> None:
        self._region = region
        self._program = program
        liveness = Liveness(region, program)
        self._busy = _kept_busy(region, program, liveness)
        self._is_kept = is_kept
        self.chains = liveness.chains

    def why_outside(self, chain: list[Life]) -> str:
        """Why a storage cannot lie in an arena, in words; empty where it can."""
        first = chain[0]
        line = self._region.body[first.start] if first.start != BEFORE else None
        if any(life.leaves for life in chain):
            return "is a result, or may be part of one"
        if not allocates_one(line):
            return "is made by a region" if line and regions_of(line) else "is made by a library op"
        if line.zeroed:
            return "is asked for zeroed"
        if line.memory not in _POOLED:
            return "is memory that peers address"
        if self._program.buffers[first.owner].is_opaque:
            return "has a layout that only the device understands"
        if nbytes_of(self._program.buffers[first.owner]) == 0:
            return "has no bytes"
        return self._why_shared(chain)

    def _why_shared(self, chain: list[Life]) -> str:
        if any(life in self._busy for life in chain):
            return "is worked on by a collective"
        if any(life.is_held for life in chain):
            return "may be held by an object"
        if self._is_kept and any(life.escapes for life in chain):
            return "is seen by a region or an op of others, which may hold on to it"
        if chain[0].mempool:
            return "is from a memory pool of the user's"
        if not _streams(chain) <= _CALLERS:
            return "is used on streams besides the caller's"
        return "" if chain[-1].end is not None else "is never freed"


def _streams(chain: list[Life]) -> frozenset[int]:
    return frozenset().union(*(life.streams for life in chain))


def _kept_busy(region: Region, program: Program, liveness: Liveness) -> set[Life]:
    """Storage that something may work on after the call that was given it."""
    found: set[Life] = set()
    for line in region.body:
        if is_collective(line):
            for name in (*effects(line, program).touched, *effects(line, program).defines):
                found.update(liveness.of(name))
    return found


def _bindings(region: Region, program: Program) -> dict[str, int]:
    """Return where in the region each symbol is bound; those bound before it are not listed."""
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
