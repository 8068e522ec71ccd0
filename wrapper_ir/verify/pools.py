"""Checks of pools: slices lie inside, do not overlap while alive, and end before the pool.

If offsets or sizes depend on symbols, slices are also compared for a few choices of their values.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TypeAlias

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.proof import Facts, Interval, end_of, grows, within
from wrapper_ir.lines.expr import ToFloat, free_symbols, substitute
from wrapper_ir.lines.traits import allocates, asserts, binds, computes, takes_memory
from wrapper_ir.verify import rules
from wrapper_ir.verify.state import PoolSpace, Slot, Span, State, meeting
from wrapper_ir.verify.tables import check_alignment, report_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Place, Storage

Choice: TypeAlias = "dict[str, int]"
"""Values of symbols."""


class Pools:
    """Checks of the two kinds of lines for pools."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self.state = state
        self.lifetimes = lifetimes
        self._allocations = 0
        #: Where pools lost their last slice, and how much had been allocated by then.
        self._emptied: dict[Storage, tuple[Place, int]] = {}

    def check(self, line: ir.AnyLine, found: ir.Effects) -> None:
        """Check a line, before what it ends has ended, for pools that go on without slices."""
        self._allocations += takes_memory(line) or allocates(line)
        for storage in (each for name in found.kills for each in self.lifetimes.storages(name)):
            slot, (last, before) = storage.slot, self._emptied.get(storage, (None, 0))
            if slot is not None and slot.pool.space is not None and len(slot.pool.space) == 1:
                self._emptied[slot.pool] = self.state.here(), self._allocations
            elif last is not None and self._allocations > before and not storage.kept:
                self.state.report(rules.IDLE_POOL, name=storage.owner, last=last)

    def enter_pool(self, line: ir.AllocatePool) -> None:
        """Make the defined buffer a pool, and check that it has one dimension."""
        buffer = self.lifetimes.buffers[line.out]
        for storage in buffer.storages:
            storage.space = PoolSpace()
        if buffer.layout is not None and buffer.layout.rank != 1:
            self.state.report(rules.POOL_RANK, name=line.out, rank=buffer.layout.rank)

    def enter_slice(self, line: ir.AllocateFromPool) -> None:
        """Make the defined buffer a slice, and check its place in the pool."""
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
            slot = Slot(start, end, out.storages[0], holder)
            if not slot.is_static and self.state.frame is self.state.root:
                slot.spans = self.choices.spans(start, end, out.layout)
            out.storages[0].slot = slot
            self._check_place(line, out.layout, slot)
            other = holder.space.overlapping(slot, self.state.facts)
            if other is not None:
                fault = partial(self.state.report, rules.SLICES_OVERLAP, name=line.out)
                where, beside = self._example(slot, other), other.storage.owner
                fault(other=beside, pool=line.pool, where=where)
            holder.space.add(slot)
            self._emptied.pop(holder, None)

    @cached_property
    def choices(self) -> Choices:
        """A few choices of the symbols, made for the first symbolic slice."""
        return Choices(self.state.program, self.state.facts)

    def _check_place(self, line: ir.AllocateFromPool, layout: ir.Layout, slot: Slot) -> None:
        facts, fault = self.state.facts, partial(self.state.report, name=line.out)
        start, end, capacity = slot.start, slot.end, slot.pool.capacity
        if facts.negative(start):
            fault(rules.NEGATIVE, what="offset in its pool", value=start)
        elif capacity is not None and facts.exceeds(end, capacity):
            fault = partial(fault, start=start, end=end)
            fault(rules.SLICE_OUT_OF_POOL, pool=line.pool, capacity=capacity)
        check_alignment(self.state, line.out, layout, start, line.pool)
        pool = self.lifetimes.buffers[line.pool].layout
        if pool is not None and pool.device != layout.device:
            report_devices(self.state, line.out, layout, line.pool, pool)

    def _example(self, slot: Slot, other: Slot) -> str:
        """Describe values of the symbols for which both share a byte."""
        at = meeting(slot, other)
        if at is None:
            return ""
        ends = (slot.start, slot.end, other.start, other.end)
        names = sorted(frozenset().union(*map(free_symbols, ends)))
        choice = self.choices.all[at]
        values = [f"{name} is {choice[name]}" for name in names if name in choice]
        return f", for example where {' and '.join(values)}"


# Valid values of a program's symbols. An overlap for one choice of values is a fault.
#
# A choice respects ranges and the dependences among symbols that lines state: computed symbols are
# computed, bound sizes are those of layouts, no size is negative, and all assertions hold.
# Relations that follow only from the condition of a region are not considered, so choices do not
# apply inside regions.

_ANY: Final[Interval] = (None, None)

#: Functions from a hint or typical value, a symbol's index and the number of symbols to a value.
_TRIES: Final[tuple[Callable[[int, int, int], int], ...]] = (
    lambda hint, _, __: max(hint, 1),
    lambda _, __, ___: 1,
    lambda hint, at, _: 2 * hint + at + 1,
    lambda hint, at, count: 7 * hint + 3 * (count - at),
)


class Choices:
    """The choices for one program."""

    def __init__(self, program: ir.Program, facts: Facts) -> None:
        self._ranges = facts.ranges
        self._defined = dict(_definitions(program))
        self._asserted = [_exact(line.condition) for _, line in ir.walk(program) if asserts(line)]
        sizes = {size for layout in program.buffers.values() for size in layout.size}
        self._sizes = {size for size in sizes if not isinstance(size, (int, sympy.Symbol))}
        self._known: dict[ir.Dim, tuple[int | None, ...]] = {}
        self.all: tuple[Choice, ...] = tuple(filter(self._is_allowed, self._made(program)))

    def spans(self, start: ir.Dim, end: ir.Dim, layout: ir.Layout) -> tuple[Span, ...]:
        """Return the span of bytes for each choice, empty for an empty layout."""
        sizes = [self._values(size) for size in layout.size if type(size) is not int]
        ends = zip(self._values(start), self._values(end), strict=True)
        rows = ([values[at] for values in sizes] for at in range(len(self.all)))
        return tuple(_span(*each, row) for each, row in zip(ends, rows, strict=True))

    def _values(self, value: ir.Dim) -> tuple[int | None, ...]:
        """Return the value for each choice; None if the choice does not determine it."""
        found = self._known.get(value)
        if found is None:
            values = (_value(value, choice) for choice in self.all)
            found = tuple(v if type(v) is int else None for v in values)
            self._known[value] = found
        return found

    def _made(self, program: ir.Program) -> Iterator[Choice]:
        free = {
            name: within(_ANY, info.hint)
            for name, info in program.symbols.items()
            if info.kind is ir.SymbolKind.INT and name not in self._defined
        }
        for choose in _TRIES:
            choice = {
                name: within(self._ranges.get(name, _ANY), choose(hint, at, len(free)))
                for at, (name, hint) in enumerate(free.items())
            }
            for name, definition in self._defined.items():
                value = _value(definition, choice)
                if type(value) is int:
                    choice[name] = value
            yield choice

    def _is_allowed(self, choice: Choice) -> bool:
        return (
            all(within(self._ranges.get(n, _ANY), value) == value for n, value in choice.items())
            and not any(_is_negative(_value(size, choice)) for size in self._sizes)
            and all(_holds(condition, choice) for condition in self._asserted)
        )


def _span(first: int | None, last: int | None, sizes: list[int | None]) -> Span:
    if first is None or last is None:
        return None
    known = [size for size in sizes if size is not None]
    if any(size <= 0 for size in known):
        return first, first
    return (first, last) if len(known) == len(sizes) else None


def _is_negative(value: ir.Scalar) -> bool:
    return type(value) is int and value < 0


def _holds(condition: ir.Scalar, choice: Choice) -> bool:
    """Return whether a condition holds for a choice, or is about other symbols only."""
    names = free_symbols(condition)
    if names and names.isdisjoint(choice):
        return True
    return _value(condition, choice) is True


def _exact(condition: ir.Scalar) -> ir.Scalar:
    """Return the condition on exact integers instead of their floating-point approximations."""
    if isinstance(condition, sympy.Basic) and condition.has(ToFloat):
        try:
            return condition.replace(ToFloat, lambda value: value)
        except (TypeError, ValueError):
            return condition
    return condition


def _value(value: ir.Scalar, choice: Choice) -> ir.Scalar:
    """Return the value for one choice, or an expression of undetermined symbols."""
    if not isinstance(value, sympy.Basic) or grows(value):
        return value
    try:
        found: ir.Scalar = substitute(value, choice)
    except ir.UnsupportedExprError:
        return value
    return found


def _definitions(program: ir.Program) -> Iterator[tuple[str, ir.Scalar]]:
    """Yield the symbols that depend on others, with their definitions, in order."""
    items: dict[str, str] = {}
    for _, line in ir.walk(program):
        if computes(line):
            yield line.symbol, line.value
        elif binds(line):
            value = _source(line.source, program, items, line.symbol)
            if value is not None and line.symbol not in free_symbols(value):
                yield line.symbol, value


def _source(
    source: ir.SymbolSource, program: ir.Program, items: dict[str, str], name: str
) -> ir.Scalar | None:
    """Return the definition of a bound symbol. Items read twice are assumed equal."""
    if isinstance(source, ir.ItemOf):
        return ir.symbol(items.setdefault(source.buffer, name))
    layout = program.buffers.get(source.buffer)
    if layout is None:
        return None
    if not isinstance(source, (ir.SizeOf, ir.StrideOf)):
        return layout.offset
    values = layout.size if isinstance(source, ir.SizeOf) else layout.stride
    return values[source.dim] if 0 <= source.dim < len(values) else None
