"""Buffers and the storage behind them: what defines them, who looks at them, when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.proof import end_of
from wrapper_ir.lines import Stage
from wrapper_ir.verify import rules
from wrapper_ir.verify.layouts import check_layout, check_owner, same_device
from wrapper_ir.verify.storage import Buffer, End, Kind, Storage
from wrapper_ir.verify.tables import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import Alias, BufferInput, Layout
    from wrapper_ir.verify.state import Frame, Place, State
    from wrapper_ir.verify.symbols import Symbols


class Lifetimes:
    """Every buffer so far, and the storage that this region still has to end."""

    def __init__(self, state: State, symbols: Symbols) -> None:
        self.state = state
        self.symbols = symbols
        self.buffers: dict[str, Buffer] = {}
        self._owned: dict[Frame, list[Storage]] = {}

    # Definitions.

    def define_constants(self) -> None:
        """Defines the constants; tied ones share their storage."""
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
        """Defines an input of the program or a parameter of a region."""
        buffer = self._add(item.name, place, kind)
        for storage in buffer.storages:
            storage.donated = item.donated
        if buffer.layout is not None:
            buffer.pending = buffer.layout.symbols

    def define_owned(self, name: str, *, is_result: bool = False) -> Buffer:
        """Defines new storage; with ``is_result`` its layout's symbols may be bound later."""
        buffer = self._add(name, self.state.here(), Kind.OWNED)
        self._owned.setdefault(self.state.frame, []).extend(buffer.storages)
        if is_result and buffer.layout is not None:
            buffer.pending = buffer.layout.symbols
        return buffer

    def define_alias(self, name: str, aliases: Iterable[Alias], *, is_result: bool = False) -> None:
        """Defines a view, or what may be one, of other buffers' storage."""
        place = self.state.here()
        buffer = Buffer(name, self.state.frame, place, self._layout(name, place), ())
        storages: dict[Storage, None] = {}
        for alias in aliases:
            source = self.buffers.get(alias.source)
            if source is not None:
                storages.update(dict.fromkeys(source.storages))
                buffer.is_certain &= source.is_certain and not alias.may
                self._check_view(buffer, source, may=alias.may)
        buffer.storages = tuple(storages)
        if is_result and buffer.layout is not None:
            buffer.pending = buffer.layout.symbols
        self._enter(buffer)

    def define_unknown(self, name: str) -> None:
        """Defines a name whose storage cannot be told, so that one fault does not make more."""
        place = self.state.here()
        self._enter(Buffer(name, self.state.frame, place, self._layout(name, place), ()))

    def _add(self, name: str, place: Place, kind: Kind) -> Buffer:
        layout = self._layout(name, place)
        storage = Storage(name, kind, place)
        if layout is not None:
            check_owner(self.state, name, layout, place)
            storage.capacity = end_of(layout)
        buffer = Buffer(name, self.state.frame, place, layout, (storage,), owns=True)
        self._enter(buffer)
        return buffer

    def _enter(self, buffer: Buffer) -> None:
        check_name(self.state, buffer.name, "buffer", buffer.place)
        known = self.buffers.get(buffer.name)
        if known is not None:
            self.state.report(
                rules.DEFINED_TWICE, place=buffer.place, name=buffer.name, first=f"at {known.place}"
            )
            # Which of the two a later line means cannot be told: nothing is said about either.
            buffer.storages = ()
            for storage in known.storages:
                storage.leaves = True
        self.buffers[buffer.name] = buffer

    def _layout(self, name: str, place: Place) -> Layout | None:
        """The layout of a name, or ``None`` where it is missing or its extent cannot be told."""
        layout = self.state.program.buffers.get(name)
        if layout is None:
            self.state.report(rules.NO_LAYOUT, place=place, name=name)
            return None
        if layout.symbols:
            self.symbols.check_layout(name, layout, place)
        return layout if check_layout(self.state, name, layout, place) else None

    def _check_view(self, view: Buffer, source: Buffer, *, may: bool) -> None:
        """Checks that a view lies on its source's device and within its storage."""
        if view.layout is None or source.layout is None:
            return
        if not same_device(view.layout.device, source.layout.device):
            if not may:
                self._report_devices(view.name, view.layout, source.name, source.layout)
            return
        if may or not source.is_certain or len(source.storages) != 1:
            return  # where it lies is known only at run time
        self._check_alignment(view, view.layout, source, source.layout)
        storage = source.storages[0]
        capacity = storage.capacity
        if capacity is not None and self.state.facts.sticks_out(view.layout, capacity):
            self.state.report(
                rules.VIEW_OUT_OF_BOUNDS,
                name=view.name,
                end=end_of(view.layout),
                owner=storage.owner,
                capacity=capacity,
            )

    def _check_alignment(self, view: Buffer, layout: Layout, source: Buffer, of: Layout) -> None:
        """Checks that a view begins a whole number of its own elements into its source."""
        itemsize = layout.dtype.itemsize
        distance = layout.offset * itemsize - of.offset * of.dtype.itemsize
        if type(distance) is int and distance % itemsize:
            self.state.report(
                rules.MISALIGNED,
                name=view.name,
                distance=distance,
                source=source.name,
                dtype=layout.dtype.short,
                itemsize=itemsize,
            )

    def _report_devices(self, name: str, layout: Layout, other: str, expected: Layout) -> None:
        self.state.report(
            rules.DEVICES_DIFFER,
            name=name,
            device=layout.device,
            other=f"%{other}",
            expected=expected.device,
        )

    # Uses.

    def find(self, name: str, place: Place | None = None) -> Buffer | None:
        """The buffer, if it is defined and can be seen here; reports it otherwise."""
        buffer = self.buffers.get(name)
        if buffer is None:
            names = self.state.buffer_names
            self.state.report(
                rules.UNDEFINED,
                place=place,
                name=name,
                later=self.state.later(name, names),
                near=self.state.near(name, names),
            )
        elif buffer.frame is not self.state.frame and not buffer.is_global:
            self.state.report(rules.NOT_ISOLATED, place=place, name=name)
            return None
        return buffer

    def use(self, name: str, *, needs_layout: bool = True) -> None:
        """Checks that a buffer is alive and, where its shape matters, its symbols are bound."""
        buffer = self.find(name)
        if buffer is None:
            return
        for storage in buffer.storages:
            if storage.end is not None:
                self._report_dead(name, storage.end)
                break
        if buffer.pending and needs_layout:
            if self.symbols.missing(buffer.pending):
                where = f", but the layout of %{name} needs its value here"
                self.symbols.need(buffer.pending, self.state.here(), where)
            else:
                buffer.pending = frozenset()

    def write(self, name: str) -> None:
        """Notes a change of the contents; :meth:`use` was called before."""
        buffer = self.buffers.get(name)
        for storage in () if buffer is None else buffer.storages:
            storage.first.written = True
            storage.blank = False
            if storage.slot is not None:
                storage.slot.pool.blank = False  # a slice at the same place sees it
            if storage.kind is Kind.CONSTANT and not storage.mutable:
                is_it = storage.owner == name
                what = "the constant" if is_it else f"the constant %{storage.owner}"
                self.state.report(rules.WRITE_TO_CONSTANT, name=name, what=what)

    def check_contents(self, name: str) -> None:
        """Warns of a read of storage that nothing has written to; no elements are no contents."""
        buffer = self.buffers.get(name)
        if buffer is None or not buffer.storages or buffer.layout is None:
            return
        is_blank = all(storage.blank for storage in buffer.storages)
        if is_blank and self.state.facts.exceeds(buffer.layout.numel, 0):
            self.state.report(rules.UNWRITTEN_READ, name=name)

    def leave_blank(self, name: str, pool: str | None = None) -> None:
        """Notes that new storage has undefined contents; a slice's are what the pool's are."""
        buffer = self.buffers[name]
        source = self.buffers.get(pool or "")
        if pool is None or (source is not None and all(s.blank for s in source.storages)):
            for storage in buffer.storages:
                storage.blank = True

    def keep(self, name: str) -> None:
        """Notes that the memory of new storage may be kept for the next call."""
        for storage in self.buffers[name].storages:
            storage.kept = True

    def peek(self, name: str) -> None:
        """Checks that what a probe looks at is there."""
        buffer = self.buffers.get(name)
        if buffer is None or (buffer.frame is not self.state.frame and not buffer.is_global):
            self.state.report(rules.DEAD_PEEK, name=name, why="which is not defined here")
            return
        ends = [s.end for s in buffer.storages if s.end is not None]
        if ends:
            self.state.report(rules.DEAD_PEEK, name=name, why=_why(ends[0]))

    def _report_dead(self, name: str, end: End, place: Place | None = None) -> None:
        by = f" at {end.place}"
        if end.taken_by:
            self.state.report(rules.USE_AFTER_REUSE, place=place, name=name, to=end.taken_by, by=by)
        else:
            self.state.report(rules.USE_AFTER_FREE, place=place, name=name, by=by)

    # Ends.

    def kill(self, name: str) -> None:
        """Frees the storage of ``name``."""
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
            self._end(storage, End(self.state.here()))

    def take(self, donor: str, out: str) -> None:
        """Lets the storage of ``donor`` go on as ``out``."""
        buffer = self.find(donor)
        storage = self._takeable(buffer) if buffer is not None else None
        if buffer is None or storage is None:
            self.define_unknown(out)
            return
        place = self.state.here()
        heir = Storage(
            out,
            Kind.OWNED,
            place,
            storage.capacity,
            root=storage.first if storage.first.kind is not Kind.OWNED else None,
            slot=storage.slot,
            blank=storage.blank,
            kept=storage.kept,
        )
        self._end(storage, End(place, out), heir)
        storage.first.written = True
        layout = self._layout(out, place)
        if layout is not None:
            check_owner(self.state, out, layout, place)
            self._check_fit(out, layout, buffer, storage)
        self._owned.setdefault(self.state.frame, []).append(heir)
        self._enter(Buffer(out, self.state.frame, place, layout, (heir,), owns=True))

    def _takeable(self, buffer: Buffer) -> Storage | None:
        """The storage behind a donor, if it may go on under another name; reports it otherwise."""
        if not buffer.storages:
            return None
        storage = buffer.storages[0]
        if storage.kind is Kind.CONSTANT:
            what = storage.kind.value
            self.state.report(rules.REUSE_OF_BORROWED, donor=buffer.name, what=what)
        elif not buffer.owns:
            self.state.report(rules.REUSE_OF_VIEW, donor=buffer.name, owner=storage.owner)
        elif storage.end is not None:
            self._report_dead(buffer.name, storage.end)
        elif storage.kind is Kind.INPUT and not storage.donated:
            what = storage.kind.value
            self.state.report(rules.REUSE_OF_BORROWED, donor=buffer.name, what=what)
        elif storage.kind is Kind.PARAM and not storage.donated:
            self.state.report(rules.PARAM_ENDED, name=buffer.name, verb="reused")
        elif storage.space is not None:
            self.state.report(rules.REUSE_OF_BORROWED, donor=buffer.name, what="a pool")
        elif storage.held:
            self.state.report(rules.HELD_STORAGE, name=buffer.name, what="which is reused")
        else:
            return storage
        return None

    def _check_fit(self, out: str, layout: Layout, donor: Buffer, storage: Storage) -> None:
        if donor.layout is not None and not same_device(layout.device, donor.layout.device):
            self._report_devices(out, layout, donor.name, donor.layout)
        elif storage.capacity is not None and not self.state.facts.fits(layout, storage.capacity):
            self.state.report(
                rules.REUSE_DOES_NOT_FIT,
                name=out,
                needed=end_of(layout),
                donor=donor.name,
                capacity=storage.capacity,
            )

    def _end(self, storage: Storage, end: End, heir: Storage | None = None) -> None:
        if storage.space is not None and heir is None:
            for piece in storage.space.alive():
                self.state.report(rules.POOL_ENDS_FIRST, pool=storage.owner, slice=piece.owner)
                piece.end = end
        if storage.slot is not None:
            storage.slot.hand_on(heir)
        storage.end = end

    # What is left at the end of a region.

    def result(self, name: str, position: int, place: Place) -> Storage | None:
        """Checks that a result is alive; its storage leaves the region, and is returned."""
        buffer = self.find(name, place)
        if buffer is None or not buffer.storages:
            return None
        for storage in buffer.storages:
            if storage.end is not None:
                self.state.report(
                    rules.DEAD_RESULT,
                    place=place,
                    position=position,
                    name=name,
                    why=_why(storage.end),
                )
            self._leave(storage)
        return buffer.storages[0]

    def _leave(self, storage: Storage) -> None:
        storage.leaves = True
        if storage.slot is not None:
            storage.slot.pool.leaves = True

    def end_region(self) -> None:
        """Reports what is owned, alive and does not leave, in a program whose ends are explicit."""
        is_planned = self.state.program.stage is Stage.PLANNED
        for storage in self._owned.pop(self.state.frame, ()):
            place, name = storage.place, storage.owner
            if is_planned and storage.end is None and not storage.leaves:
                self.state.report(rules.LEAK, place=place, name=name)
            if storage.kept and storage.leaves:
                self.state.report(rules.KEPT_RESULT, place=place, name=name)
            if storage.kept and storage.held:
                what = "which is kept for the next call"
                self.state.report(rules.HELD_STORAGE, place=place, name=name, what=what)


def _why(end: End) -> str:
    if end.taken_by:
        return f"whose storage went to %{end.taken_by} at {end.place}"
    return f"which was freed at {end.place}"
