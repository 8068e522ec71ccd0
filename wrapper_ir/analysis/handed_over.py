"""Memory that changes hands: inputs that a call lets go of, and results in the caller's memory."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from wrapper_ir.analysis.kept import source_of
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.memory import MemoryKind
from wrapper_ir.lines.traits import allocates, allocates_one, calls_op, is_view, regions_of, retakes

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Life, StorageMap
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import AnyLine, Program


def spent_inputs(program: Program, storages: StorageMap) -> dict[int, list[str]]:
    """Return the inputs to let go of before a line, by the line's position.

    A call may hold the last reference to an input: autograd hands over tensors that it saved. So
    the call lets go of each input before the first line after its last use that may allocate.
    Inputs that lines free or take over end there, and those that something else may still read,
    a result or work on another stream, last until the end of the call.
    """
    taking = [n for n, line in enumerate(program.body) if _may_allocate(line)]
    found: dict[int, list[str]] = {}
    for name in storages.touched_inputs:
        lives = storages.lives.of(name)
        if all(life.end is None and not _is_read_on(life) for life in lives):
            next_one = bisect_right(taking, max(life.last_use for life in lives))
            if next_one < len(taking):
                found.setdefault(taking[next_one], []).append(name)
    return found


def _may_allocate(line: AnyLine) -> bool:
    return allocates(line) or calls_op(line) or bool(regions_of(line))


def _is_read_on(life: Life) -> bool:
    """Return whether something may read a storage after the last line that uses it."""
    return life.leaves or life.escapes or life.is_held or any(life.streams)


def placed_results(program: Program) -> dict[str, int]:
    """Return the allocations that end up as results, with each result's position.

    If the caller provides memory for such a result, the allocation can be a view of that memory
    from the start. Allocation and result have the same dtype and the same bytes, without gaps; in
    between, the storage may have other views and names. Symbols of the result's layout are bound
    by then.
    """
    allocations = {line.out: line for line in program.body if allocates_one(line)}
    views = {line.out: line for line in program.body if is_view(line) or retakes(line)}
    found: dict[str, int] = {}
    for position, value in enumerate(program.results):
        if not isinstance(value, BufferValue):
            continue
        name = value.buffer
        while name in views:
            name = source_of(views[name])
        line = allocations.get(name)
        if line is None or line.memory is not MemoryKind.DEFAULT:
            continue
        if line.space or program.layout(line.out).is_opaque:  # callers have no such memory
            continue
        if _is_whole(program.layout(value.buffer), program.layout(line.out)):
            found.setdefault(line.out, position)
    return found


def _is_whole(view: Layout, whole: Layout) -> bool:
    """Return whether two layouts cover every element of a storage once, at equal addresses."""
    return (
        view.dtype is whole.dtype
        and view.device == whole.device
        and view.offset == whole.offset == 0
        and view.numel == whole.numel
        and view.symbols <= whole.symbols
        and view.is_dense
        and whole.is_dense
    )
