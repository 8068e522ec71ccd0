"""Pools of one element type: a pool of several becomes one for each, with the slices as planned."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import sympy

from wrapper_ir.analysis.legality import is_mixed
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.build.rewriting import Draft, extent_of
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import ceil_divided, dim
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.memory import Free
from wrapper_ir.lines.traits import allocates, ends, is_slice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.expr import Dim
    from wrapper_ir.lines.layout import DType
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
                size = dim((layout.offset + extent_of(layout)) * layout.dtype.itemsize)
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
