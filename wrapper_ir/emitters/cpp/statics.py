"""Memory that a program keeps from call to call, since it never leaves one, and views of it.

Constants stay where they are as long as a state lives, and so does memory that is kept. So every
view of them whose layout is fixed can be made once, and the address of it be looked up once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from wrapper_ir.devices import kind_of, registered
from wrapper_ir.emitters.arenas import allocates_much
from wrapper_ir.emitters.facts import free_region_symbols
from wrapper_ir.emitters.storages import Storages
from wrapper_ir.lines.control import Region
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    MemoryKind,
    Reinterpret,
    Reuse,
)
from wrapper_ir.lines.program import GraphRole

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

    storages: Storages
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
    program: Program, keep_bytes: int, *, keep_arenas: bool = False, accelerated: bool = True
) -> Statics:
    """Return what a program may keep.

    Args:
        program: The program.
        keep_bytes: The most bytes of buffers and pools of fixed size, on the CPU.
        keep_arenas: Whether pools are kept beyond that, whatever their size, and what library ops
            allocate.
        accelerated: Whether memory of accelerators may be kept. It serves one stream; a program
            that uses several has one on each.
    """
    storages = Storages(program)
    devices = tuple(
        kind.type
        for kind in registered()
        if kind.memory.keep_factor and (accelerated or not kind.is_accelerator)
    )
    arenas = _arenas(program, storages, devices) if keep_arenas else ()
    buffers = _buffers(program, storages, keep_bytes, arenas, devices)
    inside = Region((), program.body, program.results)
    symbols = frozenset(free_region_symbols(inside, program))
    views = _views(program, storages, {*buffers, *arenas})
    growing = frozenset(name for name in arenas if not isinstance(program.layout(name).nbytes, int))
    needs_heap = keep_arenas and allocates_much(program, {*buffers, *arenas})
    return Statics(storages, symbols, tuple(buffers), arenas, growing, views, needs_heap)


def _arenas(program: Program, storages: Storages, devices: tuple[str, ...]) -> tuple[str, ...]:
    """Pools that are used inside of a call only, and only to take storage from.

    An op cannot resize what lies in an arena, so it may write there whatever it is.
    """
    # The planner is a large package; only programs with kept arenas need this of it.
    from wrapper_ir.planning.kept import kept_pools  # noqa: PLC0415

    return tuple(
        name
        for name in kept_pools(program)
        if name not in storages.handled and program.layout(name).device.type in devices
    )


def _buffers(
    program: Program,
    storages: Storages,
    keep_bytes: int,
    arenas: tuple[str, ...],
    devices: tuple[str, ...],
) -> dict[str, None]:
    """Allocations that end inside the program, whatever their storage is called by then."""
    found: dict[str, None] = {}
    if program.role is not GraphRole.INFERENCE:
        return found
    # An op that finds its result larger than the buffer given resizes that, and for good.
    unfit = frozenset().union(
        storages.roots(storages.leaves),
        storages.roots(storages.seen_by_strangers),
        storages.roots(storages.resizable),
    )
    unfit |= {
        storages.root(line.pool)
        for line in program.body
        if isinstance(line, AllocateFromPool) and storages.root(line.out) in unfit
    }
    ending = storages.roots(storages.killed) - unfit
    left = {each: keep_bytes * kind_of(each).memory.keep_factor for each in devices}
    for line in program.body:
        if not isinstance(line, (Allocate, AllocatePool)) or line.memory is not MemoryKind.DEFAULT:
            continue
        if line.out in arenas:
            continue
        layout = program.layout(line.out)
        device = layout.device.type
        if device not in left or storages.root(line.out) not in ending:
            continue
        if layout.is_static and (size := _bytes(layout)) <= left[device]:
            found[line.out] = None
            left[device] -= size
    return found


def _views(program: Program, storages: Storages, kept: set[str]) -> Mapping[str, KeptView]:
    """Static views of what is kept. What gets out of the program is made anew in each call."""
    outer = set(program.constants) | kept
    escaping = storages.escaping() | storages.resizable
    taken = storages.roots(storages.taken)
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
        if source in program.constants and storages.root(source) in taken:
            continue
        found[line.out] = line
    return found


def same_view(old: Layout, new: Layout) -> bool:
    """Tell whether two layouts of one storage are of the same tensor."""
    return old.offset == new.offset and replace(old, offset=0) == replace(new, offset=0)


def _bytes(layout: Layout) -> int:
    nbytes = layout.nbytes
    assert isinstance(nbytes, int)
    return nbytes
