"""Arenas that outlive a call: which those of a program are.

An arena can be kept from call to call if the main body allocates and frees it in ordinary memory.
On a CPU fresh memory costs a page fault for every 4 KiB touched; on a GPU it is the host's time for
each allocation that is saved. Arenas of regions last for a run of their region. What code of others
sees (custom ops, regions) stays out: it may hold on to a buffer, whose contents the next call would
change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.lines import MemoryKind, effects, is_stranger
from wrapper_ir.lines.base import Trait
from wrapper_ir.options.declared import ARENA
from wrapper_ir.planning.liveness import Liveness

if TYPE_CHECKING:
    from wrapper_ir.lines import Device, Program, Region
    from wrapper_ir.planning.liveness import Life

ARENAS: Final = ARENA.choices
"""How long arenas can last."""


def can_keep(device: Device, memory: MemoryKind) -> bool:
    """Return whether arenas there can be kept from call to call."""
    return device.kind.memory.keeps_arenas and memory is MemoryKind.DEFAULT


def seen_by_strangers(region: Region, program: Program, liveness: Liveness) -> set[Life]:
    """Storages that code gets which may hold on to them and look later."""
    return {
        life
        for line in region.body
        if is_stranger(line)
        for name in effects(line, program).touched
        for life in liveness.of(name)
    }


def kept_pools(program: Program) -> tuple[str, ...]:
    """The pools of a planned program that can be kept from call to call, in order.

    Not those that a result lies in, nor those in which strangers saw something.
    """
    region = program.region
    if not any(Trait.POOL in line.traits for line in region.body):
        return ()
    liveness = Liveness(region, program)
    seen = {life.pool for life in seen_by_strangers(region, program, liveness)}
    return tuple(
        life.owner
        for life in liveness.lives
        if life.is_pool
        and life.end is not None
        and not (life.leaves or life in seen)
        and can_keep(program.buffers[life.owner].device, life.memory)
    )
