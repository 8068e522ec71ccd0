"""What outlives a call: the allocations whose memory a target may keep for the next one.

Memory can be kept from call to call if the main body allocates and frees it, of the ordinary kind,
and nothing looks at it later. On a CPU fresh memory costs a page fault for every 4 KiB touched; on
a GPU it is the host's time for each allocation that is saved. Storage of regions lasts for a run of
their region. What code of others sees (custom ops, regions) stays out: it may hold on to a buffer,
whose contents the next call would change.

:func:`keep_storage` decides, and says so on the lines; emitters keep what the lines say.
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

    from wrapper_ir.lines import AnyLine, Device, Place, Program

ARENAS: Final = ARENA.choices
"""How long arenas can last."""


def can_keep(device: Device, place: Place) -> bool:
    """Return whether arenas there can be kept from call to call."""
    return device.kind.memory.keeps_arenas and place == USUAL


def kept_pools(program: Program, liveness: Liveness | None = None) -> tuple[str, ...]:
    """The pools of a planned program that can be kept from call to call, in order.

    Not those that a result lies in, nor those in which code of others saw something.
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
    """Mark the allocations whose memory may be kept for the next call, where nothing is marked.

    Args:
        program: A planned program.
        host: The most bytes of buffers of fixed size to keep on the CPU. None are kept in training,
            whose buffers are many and whose calls are long.
        device: Likewise, on other devices.
        arena: Whether pools are ``kept`` beyond that, whatever their size.
        storages: Its storage map, where that is known; marks change nothing about it.

    Returns:
        The program with its marks; the same object where nothing is kept, or something is already.

    Raises:
        OptionValueError: Arenas cannot last so long.
    """
    ARENA.check(arena)
    if any(allocates(line) and line.kept for line in program.body):
        return program
    found = storages or StorageMap(program)
    names = set(kept_pools(program, found.lives)) if arena == "kept" else set()
    names -= found.handled  # an arena gives slices, and is nothing else
    if program.role is GraphRole.INFERENCE:
        names |= _fixed(program, found, host, device, names)
    if not names:
        return program
    return program.replace(body=tuple(_marked(line, names) for line in program.body))


def _marked(line: AnyLine, names: Collection[str]) -> AnyLine:
    return dataclasses.replace(line, kept=True) if allocates(line) and line.out in names else line


def _fixed(
    program: Program, storages: StorageMap, host: int, device: int, besides: Collection[str]
) -> set[str]:
    """The allocations of fixed size that end inside the program, as far as the bytes go."""
    # An op that finds its result larger than the buffer given resizes that, and for good.
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
