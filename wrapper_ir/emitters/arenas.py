"""Arenas that outlive a call, and the views of them that are the same in every call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.layout import CPU
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    MemoryKind,
    Reinterpret,
    Reuse,
)
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from collections.abc import Collection

    from wrapper_ir.analysis.storage import StorageMap
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program


#: Bytes from which on fresh memory comes from the system, page by page. The same number as
#: `kLeast` in native/src/heap.cpp, from which on heaps serve.
_MUCH: Final = 128 * 1024


def kept_arenas(
    program: Program, storages: StorageMap, unsteady: Collection[str]
) -> dict[str, dict[str, int]]:
    """The pools that are kept from call to call, each with the views that can be kept with it.

    Args:
        program: A planned program, which says which they are.
        storages: Which names of it share storage.
        unsteady: Buffers that something may resize: no view of such a storage is kept.

    Returns:
        For each pool the views of it, in program order, by name: where each begins, in bytes.
    """
    found: dict[str, dict[str, int]] = {
        line.out: {}
        for line in program.body
        if isinstance(line, AllocatePool)
        and line.kept
        and line.memory is MemoryKind.DEFAULT
        and program.layout(line.out).device.kind.python.arena
    }
    steady = {name: views for name, views in found.items() if program.layout(name).is_static}
    resized = storages.lives.storages(unsteady)
    starts: dict[str, tuple[str, int]] = {}
    for line in program.body:
        match line:
            case AllocateFromPool(out=name, pool=pool, offset=int(start)):
                place = (pool, start)
            case Reinterpret(out=name, source=source) if source in starts:
                place = starts[source]
            case Reuse(out=name, donor=source) if source in starts:
                place = starts[source]
            case _:
                continue
        starts[name] = place
        if place[0] in steady and resized.isdisjoint(storages.lives.storages((name,))):
            begin = _start(program.layout(name), place[1])
            if begin is not None:
                steady[place[0]][name] = begin
    return found


def allocates_much(program: Program, kept: Collection[str]) -> bool:
    """Tell whether calls allocate large memory on the CPU: for results, in ops, in regions.

    Args:
        program: A planned program.
        kept: The pools that outlive a call.
    """
    for _, line in walk(program):
        if isinstance(line, (Allocate, AllocatePool, ExternKernel)):
            for name in effects(line, program).defines:
                nbytes = program.layout(name).nbytes
                is_small = isinstance(nbytes, int) and nbytes < _MUCH
                if not is_small and name not in kept and program.layout(name).device == CPU:
                    return True
    return False


def _start(layout: Layout, base: int) -> int | None:
    """Return where a view begins, in bytes from the start of its pool; none where that varies."""
    if not layout.is_static or not isinstance(layout.offset, int):
        return None
    start = base + layout.offset * layout.dtype.itemsize
    return start if start % layout.dtype.itemsize == 0 else None
