"""What is in the arenas that outlive a call: which views of them are the same in every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.memory import AllocateFromPool, Reinterpret, Reuse

if TYPE_CHECKING:
    from collections.abc import Collection

    from wrapper_ir.emitters.facts import Storages
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program

__all__ = ["kept_arenas"]


def kept_arenas(
    program: Program, storages: Storages, unsteady: Collection[str]
) -> dict[str, dict[str, int]]:
    """The pools that can be kept from call to call, each with the views that can be kept with it.

    Args:
        program: A planned program.
        storages: Which names of it share storage.
        unsteady: Buffers that something may resize: no view of such a storage is kept.

    Returns:
        For each pool the views of it, in program order, by name: where each begins, in bytes.
    """
    # The planner is a large package; only programs with kept arenas need this of it.
    from wrapper_ir.planning.kept import kept_pools  # noqa: PLC0415

    found: dict[str, dict[str, int]] = {name: {} for name in kept_pools(program)}
    steady = {name: views for name, views in found.items() if program.layout(name).is_static}
    resized = storages.roots(set(unsteady))
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
        if place[0] in steady and storages.root(name) not in resized:
            begin = _start(program.layout(name), place[1])
            if begin is not None:
                steady[place[0]][name] = begin
    return found


def _start(layout: Layout, base: int) -> int | None:
    """Where a view begins, in bytes from the start of its pool; none where that varies."""
    if not layout.is_static or not isinstance(layout.offset, int):
        return None
    start = base + layout.offset * layout.dtype.itemsize
    return start if start % layout.dtype.itemsize == 0 else None
