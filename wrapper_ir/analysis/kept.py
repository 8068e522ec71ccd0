"""Memory that lasts from call to call, and the views of it that are the same in every call.

Marks on a program's lines say what may be kept. Targets differ in what they can keep of it: one
that takes memory at the beginning of a call and gives it back at the end is
:func:`kept_around_calls`, one with a state that holds memory and views is :func:`kept_in_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import Liveness, StorageMap, storages_of
from wrapper_ir.lines.base import Runs, Trait
from wrapper_ir.lines.traits import allocates, is_slice, is_view, retakes

View: TypeAlias = ir.Reinterpret | ir.Reuse | ir.AllocateFromPool
"""A line that gives memory another name, of another layout."""

_MUCH: Final = 128 * 1024
"""Allocations of at least this many bytes come from the system, page by page. Heaps serve them from
the same size on: `kLeast` in native/src/heap.cpp."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The memory and views that last from call to call.

    Attributes:
        storages: The program's storage map.
        buffers: Allocations whose memory is kept, in order.
        arenas: Pools that are kept, in order; for those kept around calls, each with the starts of
            its views that are kept with it, in bytes.
        growing: The arenas whose size is known only when a call runs.
        views: Views of what lasts, name to the line that makes each.
        needs_heap: Whether to keep other large memory too: results, and what ops allocate.
    """

    storages: StorageMap
    buffers: tuple[str, ...] = ()
    arenas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    growing: frozenset[str] = frozenset()
    views: Mapping[str, View] = field(default_factory=dict)
    needs_heap: bool = False

    def is_ready(self, name: str) -> bool:
        """Return whether a buffer that is kept in a state exists when a call begins."""
        if name in self.arenas:
            return name not in self.growing
        return name in self.views or name in self.buffers


def kept_around_calls(program: ir.Program, *, arena: str = "call", is_checked: bool = True) -> Kept:
    """Return what is kept of memory that calls of a planned program take and give back.

    Pools outlive a call if ``arena`` is ``kept``. Inputs that are not checked in every call may
    make ops resize their outputs.
    """
    storages, is_kept = storages_of(program), arena == "kept"
    unsteady = storages.resizable if is_checked else storages.written_by_ops
    arenas = _arenas(program, storages.lives, unsteady) if is_kept else {}
    return Kept(
        storages,
        buffers=_on_host(program, arenas) if is_checked else (),
        arenas=arenas,
        views=_views_of_given(program),
        needs_heap=is_kept and allocates_much(program, arenas),
    )


def kept_in_state(
    program: ir.Program, *, keep_arenas: bool = False, accelerated: bool = True
) -> Kept:
    """Return what is kept by a state, with memory that never leaves a call.

    Constants and kept memory stay in place as long as the state lives. Every view of them with a
    static layout is therefore made once.

    Args:
        program: A planned program, whose marks say what may be kept.
        keep_arenas: Whether pools are arenas, whatever their size, and memory that library ops
            allocate is kept too.
        accelerated: Whether memory of accelerators may be kept. It serves one stream; a program
            with several streams would need it on each.
    """
    storages, marked = storages_of(program), kept_buffers(program, arenas=keep_arenas)
    layouts = {name: program.layout(name) for name in marked}
    kept = [
        name for name, each in layouts.items() if accelerated or each.device.kind.memory.on_host
    ]
    # An op cannot resize memory in an arena, so any op may write there.
    pools = {line.out for line in program.body if Trait.POOL in line.traits and allocates(line)}
    pools -= storages.handled
    arenas = [name for name in kept if name in pools] if keep_arenas else []
    buffers = [name for name in kept if name not in arenas and layouts[name].is_static]
    names = {*buffers, *arenas}

    def holds(line: View, source: str) -> bool:
        is_fixed = not is_slice(line) or isinstance(line.offset, int)
        return is_fixed and program.layout(source).is_static and line.out not in storages.resizable

    return Kept(
        storages,
        tuple(buffers),
        {name: {} for name in arenas},
        frozenset(name for name in arenas if not isinstance(layouts[name].nbytes, int)),
        _views(program, program.constants, names, holds),
        needs_heap=keep_arenas and allocates_much(program, names),
    )


# Memory.


def can_keep(device: ir.Device, place: ir.Place) -> bool:
    """Return whether arenas at a place can be kept between calls."""
    return device.kind.memory.keeps_arenas and place == ir.USUAL


def kept_pools(program: ir.Program, liveness: Liveness | None = None) -> tuple[str, ...]:
    """Return the pools of a planned program that can be kept between calls, in order.

    A pool with a result in it, or with a slice that escapes, cannot be kept.
    """
    region = program.region
    if not any(Trait.POOL in line.traits for line in region.body):
        return ()
    lives = (liveness or Liveness(region, program)).lives
    seen = {life.pool for life in lives if life.escapes}
    seen |= {life for life in lives if life.escapes or life.is_held}
    return tuple(
        life.owner
        for life in lives
        if life.is_pool
        and life.end is not None
        and not (life.leaves or life in seen)
        and can_keep(program.buffers[life.owner].device, life.place)
    )


def kept_buffers(program: ir.Program, *, arenas: bool = False) -> tuple[str, ...]:
    """Return the allocations and pools whose memory is kept for the next call, in order.

    These are the marked ones, except those that an op may resize for good; an op cannot resize
    memory inside a pool that is an arena, as pools are with ``arenas``. The verifier rejects marks
    on memory that third-party code may hold on to.
    """
    storages = storages_of(program)
    resized = storages.with_pools(storages.lives.storages(storages.resizable))
    found: list[str] = []
    for line in program.body:
        if not allocates(line) or not line.kept or line.place != ir.USUAL:
            continue
        is_arena = arenas and Trait.POOL in line.traits and line.out not in storages.handled
        if is_arena or storages.lives.storages((line.out,)).isdisjoint(resized):
            found.append(line.out)
    return tuple(found)


def _on_host(program: ir.Program, arenas: Collection[str]) -> tuple[str, ...]:
    """Return the kept buffers in host memory: torch's allocator keeps accelerator memory."""
    return tuple(
        name
        for name in kept_buffers(program)
        if name not in arenas
        and program.layout(name).device.kind.memory.on_host
        and program.layout(name).is_static
    )


def allocates_much(program: ir.Program, kept: Collection[str]) -> bool:
    """Return whether a call allocates a lot of CPU memory outside of ``kept`` pools.

    It may do so for results, in ops, or in regions.
    """
    for _, line in ir.walk(program):
        if line.runs in (Runs.STREAM, Runs.CALLER) and not ir.regions_of(line):
            for name in ir.effects(line, program).defines:
                nbytes = program.layout(name).nbytes
                is_small = isinstance(nbytes, int) and nbytes < _MUCH
                if not is_small and name not in kept and program.layout(name).device == ir.CPU:
                    return True
    return False


# Views.


def source_of(line: View) -> str:
    """Return the buffer that a line makes a view of."""
    if is_view(line):
        return line.source
    if retakes(line):
        return line.donor
    assert is_slice(line)
    return line.pool


def _views(
    program: ir.Program,
    borrowed: Collection[str],
    owned: Collection[str],
    holds: Callable[[View, str], bool],
) -> dict[str, View]:
    """Return the static views of lasting memory, and of such views, that do not leave the program.

    ``borrowed`` memory outlives calls by itself, unless the program takes it over; ``owned`` memory
    is kept. ``holds`` tells whether a target can hold the view that a line makes of a buffer.
    """
    storages = storages_of(program)
    escaping, taken = storages.escaping(), storages.taken()
    found: dict[str, View] = {}
    for line in program.body:
        if not (is_view(line) or retakes(line) or is_slice(line)):
            continue
        source = source_of(line)
        if source in borrowed:
            lasts = taken.isdisjoint(storages.lives.storages((source,)))
        else:
            lasts = source in owned or source in found
        is_static = program.layout(line.out).is_static
        if lasts and is_static and line.out not in escaping and holds(line, source):
            found[line.out] = line
    return found


def _views_of_given(program: ir.Program) -> dict[str, View]:
    """Return static views of inputs and constants that neither escape nor are written through.

    A backward graph has none: apart from the weights, of which it takes few views, its inputs are
    new tensors in every call.
    """
    if program.role is ir.GraphRole.BACKWARD:
        return {}
    given = {i.name for i in program.inputs if isinstance(i, ir.BufferInput) and not i.donated}
    given |= set(program.constants)
    written = storages_of(program).written

    def holds(line: View, source: str) -> bool:
        is_same = program.layout(line.out).dtype is program.layout(source).dtype
        return is_view(line) and source in given and is_same and line.out not in written

    return _views(program, given, (), holds)


def _arenas(
    program: ir.Program, lives: Liveness, unsteady: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the pools that are kept from call to call, with the views that are kept with each.

    Views are in program order: name to start in the pool, in bytes. Views of the storage of
    ``unsteady`` buffers, which may be resized, are not kept.
    """
    found: dict[str, dict[str, int]] = {
        line.out: {}
        for line in program.body
        if allocates(line)
        and Trait.POOL in line.traits
        and line.kept
        and line.place == ir.USUAL
        and program.layout(line.out).device.kind.python.arena
    }
    steady = {name: views for name, views in found.items() if program.layout(name).is_static}
    resized = lives.storages(unsteady)
    starts: dict[str, tuple[str, int]] = {}
    for line in program.body:
        if is_slice(line) and isinstance(line.offset, int):
            place = (line.pool, line.offset)
        elif (is_view(line) or retakes(line)) and source_of(line) in starts:
            place = starts[source_of(line)]
        else:
            continue
        starts[line.out] = place
        if place[0] in steady and resized.isdisjoint(lives.storages((line.out,))):
            begin = _start(program.layout(line.out), place[1])
            if begin is not None:
                steady[place[0]][line.out] = begin
    return found


def _start(layout: ir.Layout, base: int) -> int | None:
    """Return where a view begins, in bytes from the start of its pool; None if that varies."""
    if not layout.is_static or not isinstance(layout.offset, int):
        return None
    start = base + layout.offset * layout.dtype.itemsize
    return start if start % layout.dtype.itemsize == 0 else None
