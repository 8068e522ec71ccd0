"""Memory that a program keeps from call to call, since it never leaves one, and views of it.

Constants stay where they are as long as a state lives, and so does memory that is kept. So every
view of them whose layout is fixed can be made once, and the address of it be looked up once.
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
        storages: Which names share storage, and what happens to it.
        symbols: Symbols that something depends on. A number that is passed in and is not among
            them may be anything: an exported model has one where it was given None.
        buffers: Storage that never leaves a call, in order.
        arenas: Pools that outlive a call, in order.
        growing: Those among them whose size is known only when a call runs.
        views: Views of constants and of kept storage, name to the line that makes each.
        needs_heap: Whether to keep what else is large: results, what library ops allocate.
    """

    storages: StorageMap
    symbols: frozenset[str]
    buffers: tuple[str, ...]
    arenas: tuple[str, ...]
    growing: frozenset[str]
    views: Mapping[str, KeptView]
    needs_heap: bool = False

    def is_kept(self, name: str) -> bool:
        """Tell whether a buffer lives in the state and is there when a call begins."""
        if name in self.arenas:
            return name not in self.growing
        return name in self.views or name in self.buffers


def source_of(line: KeptView) -> str:
    """The buffer that a line makes a view of."""
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
    """Return what a program keeps.

    Args:
        program: The program, which says so.
        storages: Its storage map.
        keep_arenas: Whether pools are arenas, whatever their size, and what library ops allocate is
            kept, too.
        accelerated: Whether memory of accelerators may be kept. It serves one stream; a program
            that uses several has one on each.
    """
    marked = kept_buffers(program, storages, arenas=keep_arenas)
    layouts = {name: program.layout(name) for name in marked}
    kept = [
        name for name, each in layouts.items() if accelerated or each.device.kind.memory.on_host
    ]
    # An op cannot resize what lies in an arena, so it may write there whatever it is.
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
    """Static views of what is kept. What gets out of the program is made anew in each call."""
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
    """Tell whether two layouts of one storage are of the same tensor."""
    return old.offset == new.offset and replace(old, offset=0) == replace(new, offset=0)
