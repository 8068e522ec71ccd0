"""Memory of one element type, for targets that view none as another.

A pool of several types becomes one for each, with the slices as planned. A buffer that reuses
memory of another type gets memory of its own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

import sympy

from wrapper_ir.analysis.legality import Memories, Memory, is_mixed, is_retyped
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.build.rewriting import Draft
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import Dim, ceil_divided, dim
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.memory import Allocate, Free, Reinterpret, Reuse
from wrapper_ir.lines.traits import allocates, ends, is_slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.program import AnyLine, Program

    Spans: TypeAlias = dict[str, dict[DType, list[tuple[Dim, Dim]]]]
    """The first byte of each slice and the one after its last, by pool and element type."""


def split_pools(program: Program) -> Program:
    """Split each pool with slices of other types than its own into one pool for each type.

    Slices of one type overlap as planned. Those of different types no longer share memory, so this
    takes more of it.
    """
    draft = Draft(program)
    return draft.rewritten(lambda region: _Split(region, draft).lines())


class _Split:
    """The pools of one region."""

    def __init__(self, region: Region, draft: Draft) -> None:
        self._region = region
        self._draft = draft
        program = draft.program
        mixed = {line.pool for line in region.body if is_slice(line) and is_mixed(line, program)}
        self._spans: Spans = {pool: {} for pool in mixed}
        for line in region.body:
            if is_slice(line) and line.pool in mixed:
                layout = program.layout(line.out)
                size = dim((layout.offset + layout.clamped_extent) * layout.dtype.itemsize)
                spans = self._spans[line.pool].setdefault(layout.dtype, [])
                spans.append((line.offset, dim(line.offset + size)))
        #: The new pool for each old one and type, and the byte of the old one that it begins at.
        self._pools: dict[tuple[str, DType], tuple[str, Dim]] = {}

    def lines(self) -> list[AnyLine]:
        """Return the new lines of the region."""
        lines = list(self._lines())
        # A pool lives on if a slice leaves, but the pools of other types end with the region.
        region = dataclasses.replace(self._region, body=tuple(lines))
        names = {name for name, _ in self._pools.values()}
        lives = Liveness(region, self._draft.program).lives if names else ()
        left = (each for each in lives if each.end is None and not each.leaves)
        return [*lines, *(Free(each.owner) for each in left if each.owner in names)]

    def _lines(self) -> Iterator[AnyLine]:
        for line in self._region.body:
            if allocates(line) and line.out in self._spans:
                for dtype in self._spans[line.out]:
                    yield dataclasses.replace(line, out=self._pool(line.out, dtype))
                self._draft.remove(line.out)
            elif is_slice(line) and line.pool in self._spans:
                dtype = self._draft.program.layout(line.out).dtype
                pool, start = self._pools[line.pool, dtype]
                yield dataclasses.replace(line, pool=pool, offset=dim(line.offset - start))
            elif ends(line) and line.buffer in self._spans:
                for dtype in self._spans[line.buffer]:
                    name, _ = self._pools[line.buffer, dtype]
                    yield dataclasses.replace(line, buffer=name)
            else:
                assert self._spans.keys().isdisjoint(
                    effects(line).touched
                ), "a pool has only slices"
                yield line

    def _pool(self, pool: str, dtype: DType) -> str:
        """Add the pool for one type, and return its name."""
        start, end = _hull(self._spans[pool][dtype])
        count = dim(sympy.Max(0, ceil_divided(dim(end - start), dtype.itemsize)))
        device = self._draft.program.layout(pool).device
        layout = Layout(dtype, device, (count,), (1,))
        name = self._draft.buffer(f"{pool}_{dtype.torch_name}", layout)
        self._pools[pool, dtype] = name, start
        return name


def _hull(spans: Sequence[tuple[Dim, Dim]]) -> tuple[Dim, Dim]:
    """Return the start and the end of all spans together."""
    starts, ends = zip(*spans, strict=True)
    if all(isinstance(n, int) for n in (*starts, *ends)):
        return min(starts), max(ends)
    return 0, dim(sympy.Max(*ends))


# Reuse as another element type: the new buffer gets memory of its own.


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
    total = dim(layout.offset + layout.clamped_extent)
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
