"""Buffers and their storage: definitions, uses and ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wrapper_ir.analysis.proof import end_of
from wrapper_ir.lines import Alias, BufferInput, Dim, LayoutKind, Stage
from wrapper_ir.verify import rules, tables
from wrapper_ir.verify.state import Buffer, End, Frame, Kind, Place, State, Storage, Storages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.verify.symbols import Symbols


class Lifetimes:
    """All buffers defined so far, and the storage that the current region must still end."""

    def __init__(self, state: State, symbols: Symbols) -> None:
        self.state = state
        self.symbols = symbols
        self.buffers: dict[str, Buffer] = {}
        self._owned: dict[Frame, list[Storage]] = {}
        #: Allocations whose storage may not be kept, marked or not.
        self.not_to_keep: set[str] = set()

    # Definitions.

    def define_constants(self) -> None:
        """Define the constants. Tied ones share storage."""
        program = self.state.program
        for name, constant in program.constants.items():
            buffer = self._add(name, self.state.here(f"constants.{name}"), Kind.CONSTANT)
            buffer.is_global = True
            for storage in buffer.storages:
                storage.mutable = constant.mutable
        for name, constant in program.constants.items():
            holder = self.buffers.get(constant.tied_to or "")
            if holder is not None and holder.is_global and holder.storages:
                holder.storages[0].mutable |= constant.mutable
                self.buffers[name].storages = holder.storages

    def define_borrowed(self, item: BufferInput, place: Place, kind: Kind) -> None:
        """Define an input of the program or a parameter of a region."""
        buffer = self._add(item.name, place, kind, is_pending=True)
        for storage in buffer.storages:
            storage.donated, storage.realigned = item.donated, item.realigned
        if not item.realigned:
            return
        bytes_, layout = item.realigned, self.state.program.buffers.get(item.name)
        if kind is not Kind.INPUT:
            self._refuse_realigned(item.name, bytes_, "it is a parameter of a region", place)
        elif bytes_ < 1 or bytes_ & (bytes_ - 1):
            self._refuse_realigned(item.name, bytes_, "that is no power of two", place)
        elif layout is not None and layout.kind is not LayoutKind.STRIDED:
            self._refuse_realigned(item.name, bytes_, "its layout is not strided", place)
        elif layout is not None and bytes_ > layout.device.kind.memory.alignment:
            self._refuse_realigned(item.name, bytes_, "its device aligns memory to fewer", place)

    def _refuse_realigned(self, name: str, bytes_: int, why: str, place: Place) -> None:
        fault = partial(self.state.report, rules.BAD_REALIGNMENT, place=place)
        fault(name=name, alignment=bytes_, why=why)

    def define(self, name: str, aliases: Sequence[Alias], *, is_result: bool) -> None:
        """Define a buffer with new storage, or one that is or may be a view of other buffers.

        Symbols in the layouts of results may be bound later.
        """
        here = self.state.here()
        if not aliases:
            buffer = self._add(name, here, Kind.OWNED, is_pending=is_result)
            self._owned.setdefault(self.state.frame, []).extend(buffer.storages)
            return
        buffer = self._buffer(name, here, is_pending=is_result)
        storages: dict[Storage, None] = {}
        for alias in aliases:
            source = self.buffers.get(alias.source)
            if source is not None:
                storages.update(dict.fromkeys(source.storages))
                buffer.is_certain &= source.is_certain and not alias.may
                self._check_view(buffer, source, may=alias.may)
        buffer.storages = tuple(storages)
        self._enter(buffer)

    def _add(self, name: str, place: Place, kind: Kind, *, is_pending: bool = False) -> Buffer:
        buffer = self._buffer(name, place, is_pending=is_pending)
        self._own(buffer, Storage(name, kind, place))
        if buffer.layout is not None:
            buffer.storages[0].capacity = end_of(buffer.layout)
        self._enter(buffer)
        return buffer

    def _buffer(self, name: str, place: Place, *, is_pending: bool = False) -> Buffer:
        """Make a buffer without storage yet. Its layout is None if missing or unsound."""
        layout = self.state.program.buffers.get(name)
        if layout is None:
            self.state.report(rules.NO_LAYOUT, place=place, name=name)
        else:
            if layout.symbols:
                self.symbols.check_layout(name, layout, place)
            if not tables.check_layout(self.state, name, layout, place):
                layout = None
        pending = layout.symbols if is_pending and layout is not None else frozenset()
        return Buffer(name, self.state.frame, place, layout, (), pending=pending)

    def _own(self, buffer: Buffer, storage: Storage) -> None:
        """Make a buffer the owner of a storage, at offset 0."""
        buffer.storages, buffer.owns = (storage,), True
        if buffer.layout is not None and buffer.layout.offset != 0:
            fault = partial(self.state.report, rules.OWNER_OFFSET, place=buffer.place)
            fault(name=buffer.name, offset=buffer.layout.offset)

    def _enter(self, buffer: Buffer) -> None:
        tables.check_name(self.state, buffer.name, "buffer", buffer.place)
        known = self.buffers.get(buffer.name)
        if known is not None:
            fault = partial(self.state.report, rules.DEFINED_TWICE, place=buffer.place)
            fault(name=buffer.name, first=f"at {known.place}")
            # It is unclear which of the two a later line means, so report nothing about either.
            buffer.storages = ()
            for storage in known.storages:
                storage.leaves = True
        self.buffers[buffer.name] = buffer

    def _check_view(self, view: Buffer, source: Buffer, *, may: bool) -> None:
        """Check that a view is on the device of its source and within its storage."""
        if view.layout is None or source.layout is None:
            return
        if not tables.same_device(view.layout.device, source.layout.device):
            if not may:
                tables.report_devices(
                    self.state, view.name, view.layout, source.name, source.layout
                )
            return
        if may or not source.is_certain or len(source.storages) != 1:
            return  # its position is known only at run time
        begin = view.layout.offset * view.layout.dtype.itemsize
        distance = begin - source.layout.offset * source.layout.dtype.itemsize
        tables.check_alignment(self.state, view.name, view.layout, distance, source.name)
        owner, capacity = source.storages[0].owner, source.storages[0].capacity
        if capacity is not None and self.state.facts.sticks_out(view.layout, capacity):
            fault = partial(self.state.report, rules.VIEW_OUT_OF_BOUNDS, name=view.name)
            fault(end=end_of(view.layout), owner=owner, capacity=capacity)

    # Uses.

    def find(self, name: str, place: Place | None = None) -> Buffer | None:
        """Return a buffer if it is defined and visible here; report it otherwise."""
        buffer = self.buffers.get(name)
        if buffer is None:
            names = self.state.names.buffers
            later, near = self.state.later(name, names), self.state.near(name, names)
            self.state.report(rules.UNDEFINED, place=place, name=name, later=later, near=near)
        elif not self._is_seen(buffer):
            self.state.report(rules.NOT_ISOLATED, place=place, name=name)
            return None
        return buffer

    def _is_seen(self, buffer: Buffer) -> bool:
        """Return whether the current region may use a buffer."""
        return buffer.frame is self.state.frame or buffer.is_global

    def storages(self, name: str) -> Storages:
        """Return the storages that a buffer is a view of; none if it is undefined."""
        buffer = self.buffers.get(name)
        return () if buffer is None else buffer.storages

    def use(self, name: str, *, needs_layout: bool = True) -> None:
        """Check that a buffer is alive and, if its layout matters, its symbols are bound."""
        buffer = self.find(name)
        if buffer is None:
            return
        for storage in buffer.storages:
            if end := storage.end or storage.given_up:
                self._report_dead(name, end)
                break
        if needs_layout:
            self._need_layout(buffer, self.state.here())

    def _need_layout(self, buffer: Buffer, place: Place) -> None:
        """Check that the symbols in a buffer's layout are bound."""
        if buffer.pending and self.symbols.missing(buffer.pending):
            where = f", but the layout of %{buffer.name} needs its value here"
            self.symbols.need(buffer.pending, place, where)
        else:
            buffer.pending = frozenset()

    def write(self, name: str) -> None:
        """Record a write, after a call of :meth:`use`."""
        for storage in self.storages(name):
            storage.first.written = True
            storage.blank = False
            if storage.slot is not None:
                storage.slot.pool.blank = False  # a slice at the same offset sees it
            if storage.kind is Kind.CONSTANT and not storage.mutable:
                is_it = storage.owner == name
                what = "the constant" if is_it else f"the constant %{storage.owner}"
                self.state.report(rules.WRITE_TO_CONSTANT, name=name, what=what)
            if storage.realigned and not storage.donated:
                why = "a line writes to it"
                self._refuse_realigned(storage.owner, storage.realigned, why, self.state.here())

    def check_contents(self, name: str) -> None:
        """Warn of a read of unwritten storage, unless the buffer may be empty."""
        buffer = self.buffers.get(name)
        if buffer is None or not buffer.storages or buffer.layout is None:
            return
        if self.is_blank(name) and self.state.facts.exceeds(buffer.layout.numel, 0):
            is_theirs = any(storage.for_peers for storage in buffer.storages)
            rule = rules.UNWRITTEN_FOR_PEERS if is_theirs else rules.UNWRITTEN_READ
            self.state.report(rule, name=name)

    def begin(self, name: str, *, blank: bool, kept: bool = False, for_peers: bool = False) -> None:
        """Record what is known of new storage.

        Its contents may be undefined, it may be kept for the next call, and peers may address it.
        """
        for storage in self.storages(name):
            storage.blank, storage.kept, storage.allocation = blank, kept, name
            storage.for_peers = for_peers

    def is_blank(self, name: str) -> bool:
        """Return whether the contents of a buffer are certainly undefined."""
        buffer = self.buffers.get(name)
        return buffer is not None and all(storage.blank for storage in buffer.storages)

    def escape(self, name: str) -> None:
        """Record that code gets storage (for a slice, also its pool) that may hold on to it."""
        for storage in self.storages(name):
            storage.escapes = True
            if storage.slot is not None:
                storage.slot.pool.escapes = True

    def peek(self, name: str) -> None:
        """Check that a buffer shown by a probe is alive."""
        buffer = self.buffers.get(name)
        if buffer is None or not self._is_seen(buffer):
            self.state.report(rules.DEAD_PEEK, name=name, why="which is not defined here")
            return
        end = next((s.end for s in buffer.storages if s.end is not None), None)
        if end is not None:
            self.state.report(rules.DEAD_PEEK, name=name, why=_why(end))

    def _report_dead(self, name: str, end: End) -> None:
        rule = rules.USE_AFTER_REUSE if end.taken_by else rules.USE_AFTER_FREE
        self.state.report(rule, name=name, to=end.taken_by, by=f" at {end.place}")

    # Ends.

    def kill(self, name: str) -> None:
        """Free the storage of ``name``."""
        buffer = self.find(name)
        if buffer is None or not buffer.storages:
            return
        storage = buffer.storages[0]
        if storage.kind is Kind.CONSTANT:
            what = "a constant" if storage.owner == name else f"a view of constant %{storage.owner}"
            self.state.report(rules.FREE_OF_CONSTANT, name=name, what=what)
        elif not buffer.owns:
            self.state.report(rules.FREE_OF_VIEW, name=name, owner=storage.owner)
        elif storage.end is not None and storage.end.taken_by:
            self._report_dead(name, storage.end)
        elif storage.end is not None:
            first = f"the first time at {storage.end.place}"
            self.state.report(rules.DOUBLE_FREE, name=name, first=first)
        elif storage.kind is Kind.PARAM and not storage.donated:
            self.state.report(rules.PARAM_ENDED, name=name, verb="freed")
        else:
            storage.first.written |= storage.kind is Kind.PARAM  # its contents are lost
            self._end(storage, End(self.state.here()))

    def give_up(self, name: str) -> None:
        """Record that a region may end the storage of ``name``."""
        for storage in self.storages(name):
            storage.given_up = End(self.state.here())

    def take(self, donor: str, out: str) -> None:
        """Reuse the storage of ``donor`` for ``out``."""
        buffer = self.find(donor)
        storage = self._takeable(buffer) if buffer is not None else None
        place = self.state.here()
        new = self._buffer(out, place)
        if buffer is not None and storage is not None:
            heir = Storage(
                out,
                Kind.OWNED,
                place,
                storage.capacity,
                root=storage.first if storage.first.kind is not Kind.OWNED else None,
                slot=storage.slot,
                blank=storage.blank,
                kept=storage.kept,
                allocation=storage.allocation,
                for_peers=storage.for_peers,
            )
            self._end(storage, End(place, out), heir)
            storage.first.written = True
            self._own(new, heir)
            self._check_fit(new, buffer, storage.capacity)
            self._owned.setdefault(self.state.frame, []).append(heir)
        self._enter(new)

    def _takeable(self, buffer: Buffer) -> Storage | None:
        """Return the storage of a donor if it may be reused; report it otherwise."""
        if not buffer.storages:
            return None
        name, storage, report = buffer.name, buffer.storages[0], self.state.report
        borrowed = partial(report, rules.REUSE_OF_BORROWED, donor=name)
        if storage.kind is Kind.CONSTANT:
            borrowed(what=storage.kind.value)
        elif not buffer.owns:
            report(rules.REUSE_OF_VIEW, donor=name, owner=storage.owner)
        elif end := storage.end or storage.given_up:
            self._report_dead(name, end)
        elif storage.kind is Kind.INPUT and not storage.donated:
            borrowed(what=storage.kind.value)
        elif storage.kind is Kind.PARAM and not storage.donated:
            report(rules.PARAM_ENDED, name=name, verb="reused")
        elif storage.space is not None:
            borrowed(what="a pool")
        elif storage.held:
            report(rules.HELD_STORAGE, name=name, what="which is reused")
        else:
            return storage
        return None

    def _check_fit(self, new: Buffer, donor: Buffer, capacity: Dim | None) -> None:
        layout, facts = new.layout, self.state.facts
        if layout is None:
            return
        if donor.layout is not None and not tables.same_device(layout.device, donor.layout.device):
            tables.report_devices(self.state, new.name, layout, donor.name, donor.layout)
        elif layout.is_opaque or (donor.layout is not None and donor.layout.is_opaque):
            if layout != donor.layout:
                name, kind = new.name, layout.kind.value
                why = f"it is the storage of %{donor.name}, which has another layout"
                self.state.report(rules.NOT_STRIDED, name=name, kind=kind, why=why)
        elif capacity is not None and not facts.fits(layout, capacity):
            fault = partial(self.state.report, rules.REUSE_DOES_NOT_FIT, name=new.name)
            fault(needed=end_of(layout), donor=donor.name, capacity=capacity)

    def _end(self, storage: Storage, end: End, heir: Storage | None = None) -> None:
        if storage.space is not None and heir is None:
            for piece in storage.space.alive():
                self.state.report(rules.POOL_ENDS_FIRST, pool=storage.owner, slice=piece.owner)
                piece.end = end
        if storage.slot is not None:
            storage.slot.hand_on(heir)
        storage.end = end

    # What is left at the end of a region.

    def result(self, name: str, position: int, place: Place) -> Storages:
        """Check that a result is alive, and mark and return the storages that it may be in."""
        buffer = self.find(name, place)
        if buffer is None:
            return ()
        for storage in buffer.storages:
            if end := storage.end or storage.given_up:
                fault = partial(self.state.report, rules.DEAD_RESULT, place=place)
                fault(about=buffer.place, position=position, name=name, why=_why(end))
            storage.leaves = True
            if storage.slot is not None:
                storage.slot.pool.leaves = True
        self._need_layout(buffer, place)
        return buffer.storages

    def end_region(self) -> None:
        """Report leaks in planned programs, and kept storage that leaves or escapes."""
        is_planned = self.state.program.stage is Stage.PLANNED
        for storage in self._owned.pop(self.state.frame, ()):
            fault = partial(self.state.report, place=storage.place, name=storage.owner)
            if is_planned and storage.end is None and not storage.leaves:
                fault(rules.LEAK)
            # Memory for peers is given to a call only if nobody holds it, so ops may hold it.
            escapes = storage.escapes and not storage.for_peers
            if storage.leaves or storage.held or escapes:
                self.not_to_keep.add(storage.allocation)
            if storage.kept and storage.leaves:
                why = "it is a result or may be part of one"
                fault(rules.KEPT_RESULT, why=why, who="the caller has")
            if storage.kept and storage.held:
                fault(rules.HELD_STORAGE, what="which is kept for the next call")
            elif storage.kept and escapes:
                why = "it is passed to a region or a third-party op, which may hold on to it"
                fault(rules.KEPT_RESULT, why=why, who="they may hold")


def _why(end: End) -> str:
    if end.taken_by:
        return f"whose storage went to %{end.taken_by} at {end.place}"
    return f"which was freed at {end.place}"
