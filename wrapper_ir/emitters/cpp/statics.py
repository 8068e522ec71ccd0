"""Memory that never leaves a call and is kept for the next one, and views of it.

Constants and kept memory stay in place as long as a state lives. Every view of them with a static
layout is therefore made once, and its address looked up once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from wrapper_ir.analysis.liveness import StorageMap
from wrapper_ir.emitters.facts import allocates_much, free_region_symbols, kept_buffers
from wrapper_ir.lines.control import Region
from wrapper_ir.lines.memory import AllocateFromPool, AllocatePool, Reinterpret, Reuse

if TYPE_CHECKING:
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program


KeptView: TypeAlias = Reinterpret | Reuse | AllocateFromPool


@dataclass(frozen=True, slots=True)
class Statics:
    """The buffers that may be kept in the state.

    Attributes:
        storages: The program's storage map.
        symbols: Symbols that something depends on. A number that is passed in and is not among
            them may be anything: an exported model has one where it was given None.
        buffers: Storage that never leaves a call, in order.
        arenas: Pools that outlive a call, in order.
        growing: The arenas whose size is known only when a call runs.
        views: Views of constants and of kept storage, name to the line that makes each.
        needs_heap: Whether to keep other large memory too: results, what library ops allocate.
    """

    storages: StorageMap
    symbols: frozenset[str]
    buffers: tuple[str, ...]
    arenas: tuple[str, ...]
    growing: frozenset[str]
    views: Mapping[str, KeptView]
    needs_heap: bool = False

    def is_kept(self, name: str) -> bool:
        """Return whether a buffer lives in the state and exists when a call begins."""
        if name in self.arenas:
            return name not in self.growing
        return name in self.views or name in self.buffers


def source_of(line: KeptView) -> str:
    """Return the buffer that a line makes a view of."""
    match line:
        case Reinterpret():
            return line.source
        case Reuse():
            return line.donor
        case AllocateFromPool():
            return line.pool


def gather_statics(
    program: Program,
    storages: StorageMap,
    *,
    keep_arenas: bool = False,
    accelerated: bool = True,
) -> Statics:
    """Return the buffers that a program keeps, as its marks say.

    Args:
        program: The program.
        storages: Its storage map.
        keep_arenas: Whether pools are arenas, whatever their size, and memory that library ops
            allocate is kept too.
        accelerated: Whether memory of accelerators may be kept. It serves one stream; a program
            with several streams would need it on each.
    """
    marked = kept_buffers(program, storages, arenas=keep_arenas)
    layouts = {name: program.layout(name) for name in marked}
    kept = [
        name for name, each in layouts.items() if accelerated or each.device.kind.memory.on_host
    ]
    # An op cannot resize memory in an arena, so any op may write there.
    arenas = tuple(
        line.out
        for line in program.body
        if keep_arenas
        and isinstance(line, AllocatePool)
        and line.out in kept
        and line.out not in storages.handled
    )
    buffers = [name for name in kept if name not in arenas and layouts[name].is_static]
    inside = Region((), program.body, program.results)
    symbols = frozenset(free_region_symbols(inside, program))
    views = _views(program, storages, {*buffers, *arenas})
    growing = frozenset(name for name in arenas if not isinstance(layouts[name].nbytes, int))
    needs_heap = keep_arenas and allocates_much(program, {*buffers, *arenas})
    return Statics(storages, symbols, tuple(buffers), arenas, growing, views, needs_heap)


def _views(program: Program, storages: StorageMap, kept: set[str]) -> Mapping[str, KeptView]:
    """Return static views of kept memory, except those that leave the program."""
    outer = set(program.constants) | kept
    escaping = storages.escaping() | storages.resizable
    taken = storages.taken()
    found: dict[str, KeptView] = {}
    for line in program.body:
        if not isinstance(line, (Reinterpret, Reuse, AllocateFromPool)):
            continue
        source = source_of(line)
        if source not in outer and source not in found:
            continue
        layouts = (program.layout(line.out), program.layout(source))
        if not all(layout.is_static for layout in layouts) or line.out in escaping:
            continue
        if isinstance(line, AllocateFromPool) and not isinstance(line.offset, int):
            continue
        if source in program.constants and taken & storages.lives.storages((source,)):
            continue
        found[line.out] = line
    return found


def same_view(old: Layout, new: Layout) -> bool:
    """Return whether two layouts of one storage describe the same tensor."""
    return old.offset == new.offset and replace(old, offset=0) == replace(new, offset=0)
