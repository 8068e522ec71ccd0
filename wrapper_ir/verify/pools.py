"""Pools: slices lie inside, do not overlap while alive, and end first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.proof import end_of
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.verify import rules
from wrapper_ir.verify.storage import PoolSpace, Slot, meeting

if TYPE_CHECKING:
    from wrapper_ir.lines import AllocateFromPool, AllocatePool, Dim, Layout
    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import State


class Pools:
    """The checks of the two lines about pools."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self.state = state
        self.lifetimes = lifetimes

    def enter_pool(self, line: AllocatePool) -> None:
        """Makes what the line defined a pool and checks that it has one dimension."""
        buffer = self.lifetimes.buffers[line.out]
        for storage in buffer.storages:
            storage.space = PoolSpace()
        if buffer.layout is not None and buffer.layout.rank != 1:
            self.state.report(rules.POOL_RANK, name=line.out, rank=buffer.layout.rank)

    def enter_slice(self, line: AllocateFromPool) -> None:
        """Enters what the line defined as a slice and checks its place in the pool."""
        out = self.lifetimes.buffers[line.out]
        pool = self.lifetimes.buffers.get(line.pool)
        if pool is None or not pool.storages:
            return
        holder = pool.storages[0]
        if holder.space is None or not pool.owns:
            self.state.report(rules.NOT_A_POOL, name=line.pool)
        elif out.layout is not None and out.storages and holder.end is None:
            start = line.offset
            end = start + end_of(out.layout)
            sample = self._sample(start, end)
            slot = Slot(start, end, out.storages[0], holder, sample)
            if not slot.is_static and self.state.frame is self.state.root:
                slot.spans = self.state.choices.spans(start, end, out.layout)
            out.storages[0].slot = slot
            self._check_place(line, out.layout, slot)
            self._check_overlap(line, slot, holder.space)
            holder.space.add(slot)

    def _sample(self, start: Dim, end: Dim) -> tuple[int, int] | None:
        first, last = self.state.facts.sample(start), self.state.facts.sample(end)
        return None if first is None or last is None else (first, last)

    def _check_place(self, line: AllocateFromPool, layout: Layout, slot: Slot) -> None:
        facts = self.state.facts
        capacity = slot.pool.capacity
        if facts.negative(slot.start):
            self.state.report(
                rules.NEGATIVE, name=line.out, what="offset in its pool", value=slot.start
            )
        elif capacity is not None and facts.exceeds(slot.end, capacity):
            self.state.report(
                rules.SLICE_OUT_OF_POOL,
                name=line.out,
                start=slot.start,
                end=slot.end,
                pool=line.pool,
                capacity=capacity,
            )
        itemsize = layout.dtype.itemsize
        if type(slot.start) is int and slot.start % itemsize:
            self.state.report(
                rules.MISALIGNED,
                name=line.out,
                distance=slot.start,
                source=line.pool,
                dtype=layout.dtype.short,
                itemsize=itemsize,
            )
        pool = self.lifetimes.buffers[line.pool].layout
        if pool is not None and pool.device != layout.device:
            self.state.report(
                rules.DEVICES_DIFFER,
                name=line.out,
                device=layout.device,
                other=f"%{line.pool}",
                expected=pool.device,
            )

    def _check_overlap(self, line: AllocateFromPool, slot: Slot, space: PoolSpace) -> None:
        other = space.overlapping(slot, self.state.facts)
        if other is not None:
            self.state.report(
                rules.SLICES_OVERLAP,
                name=line.out,
                other=other.storage.owner,
                pool=line.pool,
                where=self._example(slot, other),
            )

    def _example(self, slot: Slot, other: Slot) -> str:
        """In words, values of the symbols for which both share a byte."""
        at = meeting(slot, other)
        if at is None:
            return ""
        ends = (slot.start, slot.end, other.start, other.end)
        names = sorted(frozenset().union(*map(free_symbols, ends)))
        choice = self.state.choices.all[at]
        said = [f"{name} is {choice[name]}" for name in names if name in choice]
        return f", for example where {' and '.join(said)}"
