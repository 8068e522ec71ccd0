"""Reuse as another element type: the new buffer gets memory of its own."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from wrapper_ir.analysis.legality import Memories, Memory, is_retyped
from wrapper_ir.build.rewriting import Draft, extent_of
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import dim
from wrapper_ir.lines.memory import Allocate, Free, Reinterpret, Reuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.program import AnyLine, Program


def replace_reuse(program: Program) -> Program:
    """Replace each reuse of memory as another type than the memory's by an allocation.

    The contents are copied, gaps included, unless the next line that touches them overwrites them.
    """
    draft = Draft(program)
    return draft.rewritten(lambda region: _lines(region, draft))


def _lines(region: Region, draft: Draft) -> Iterator[AnyLine]:
    program = draft.program
    memories = Memories(region, program)
    for index, line in enumerate(region.body):
        if is_retyped(line, program, memories):
            rest = region.body[index + 1 :]
            yield from _replaced(
                line, memories, draft, copies=not _is_overwritten(line.out, rest, program)
            )
            memories.learn(_own(line, line.out, memories.of(line.donor)))
        else:
            yield line
            memories.learn(line)


def _replaced(line: Reuse, memories: Memories, draft: Draft, *, copies: bool) -> Iterator[AnyLine]:
    """Yield what takes the place of a reuse: memory, the old contents in it, and the new name."""
    layout, memory = draft.program.layout(line.out), memories.of(line.donor)
    total = dim(layout.offset + extent_of(layout))
    row = dataclasses.replace(layout, size=(total,), stride=(1,), offset=0)
    made = _own(line, draft.buffer(f"{line.out}_own", row), memory)
    if not copies:
        yield Free(line.donor, origin=line.origin)
    yield made
    if copies:
        old = draft.buffer(f"{line.out}_old", row)
        yield Reinterpret(old, line.donor, origin=line.origin)
        yield draft.copy(made, made.out, old)
        yield Free(line.donor, origin=line.origin)
    yield Reuse(line.out, made.out, origin=line.origin)


def _own(line: Reuse, name: str, memory: Memory) -> Allocate:
    """Return the allocation of memory of the same kind."""
    return Allocate(
        name,
        memory=memory.place.memory,
        space=memory.place.space,
        stream=memory.stream,
        mempool=memory.mempool,
        origin=line.origin,
    )


def _is_overwritten(name: str, rest: Iterable[AnyLine], program: Program) -> bool:
    """Return whether the next line that touches a buffer writes it without reading it."""
    for line in rest:
        found = effects(line, program)
        if name in found.touched or name in found.peeks:
            return name in found.writes and name not in (*found.reads, *found.uses)
    return False
