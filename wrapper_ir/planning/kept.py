"""Allocations whose memory may be kept for the next call.

Memory can be kept between calls if it is of the usual kind, the main body allocates and frees it,
and nothing reads it later. On a CPU this saves a page fault for every 4 KiB touched, on a GPU the
host's time for each allocation. Storage of nested regions lives for one run of its region.
Storage passed to custom ops or regions is not kept: they may hold on to a buffer, which the next
call would overwrite.

:func:`keep_storage` marks the lines, and emitters keep what is marked.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import Liveness, StorageMap
from wrapper_ir.lines import USUAL, GraphRole
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.traits import allocates, takes_memory
from wrapper_ir.options.declared import ARENA

if TYPE_CHECKING:
    from collections.abc import Collection

    from wrapper_ir.lines import Device, Place, Program

ARENAS: Final = ARENA.choices
"""The lifetimes of arenas."""


def can_keep(device: Device, place: Place) -> bool:
    """Return whether arenas at a place can be kept between calls."""
    return device.kind.memory.keeps_arenas and place == USUAL


def kept_pools(program: Program, liveness: Liveness | None = None) -> tuple[str, ...]:
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


def keep_storage(
    program: Program,
    host: int = 0,
    device: int = 0,
    *,
    arena: str = "call",
    storages: StorageMap | None = None,
) -> Program:
    """Mark the allocations whose memory may be kept for the next call.

    Args:
        program: A planned program.
        host: The most bytes of fixed-size buffers to keep on the CPU. None are kept in training,
            which has many buffers and long calls.
        device: The same for other devices.
        arena: ``"kept"`` to also keep pools, whatever their size.
        storages: Its storage map, if the caller has it; marks do not change it.

    Returns:
        The marked program; the same object if nothing can be kept or something is marked already.

    Raises:
        OptionValueError: The arena lifetime is unknown.
    """
    ARENA.check(arena)
    if any(allocates(line) and line.kept for line in program.body):
        return program
    found = storages or StorageMap(program)
    names = set(kept_pools(program, found.lives)) if arena == "kept" else set()
    names -= found.handled  # pools that are used as buffers themselves
    if program.role is GraphRole.INFERENCE:
        names |= _fixed(program, found, host, device, names)
    if not names:
        return program
    return program.replace(
        body=tuple(
            dataclasses.replace(line, kept=True) if allocates(line) and line.out in names else line
            for line in program.body
        )
    )


def _fixed(
    program: Program, storages: StorageMap, host: int, device: int, besides: Collection[str]
) -> set[str]:
    """Return the fixed-size allocations to keep: those that end in the program, within budget."""
    # An op whose result is larger than its output buffer resizes that buffer for good.
    ending = storages.ending() - storages.outgoing()
    ending -= storages.with_pools(storages.lives.storages(storages.resizable))
    found: set[str] = set()
    left = {True: host, False: device}
    for life in storages.lives.lives:
        line = program.body[life.start] if life in ending and life.is_owned else None
        if line is None or not allocates(line) or line.out in besides:
            continue
        layout = program.layout(line.out)
        if layout.is_opaque or (takes_memory(line) and line.mempool):
            continue
        if not can_keep(layout.device, line.place):
            continue
        nbytes, is_host = layout.nbytes, layout.device.kind.memory.on_host
        if isinstance(nbytes, int) and layout.is_static and nbytes <= left[is_host]:
            found.add(line.out)
            left[is_host] -= nbytes
    return found
