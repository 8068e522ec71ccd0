"""Storages that a collective is still using, and the schedule of what a program says to others.

A functional collective starts work and returns. The contents of its results, and of arguments
that it updates in place, are undefined until they or views of them are passed to ``wait_tensor``.
Until then it may still read its other arguments. These may be read and freed (the op holds
references), but not written or reused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wrapper_ir.analysis.collectives import (
    begins_work,
    ignores_strides,
    is_collective,
    waits_for_work,
    worked_on,
)
from wrapper_ir.analysis.proof import sizes_of
from wrapper_ir.lines import AnyLine, Effects, ExternKernel, effects
from wrapper_ir.lines.traits import calls_op
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import shown
from wrapper_ir.verify.lifetimes import Lifetimes
from wrapper_ir.verify.overlaps import OF_TORCH
from wrapper_ir.verify.state import Frame, Kind, Place, State, Storage


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A line through which ranks talk: a call, or a wait for the work that calls started.

    Ops from outside of torch may talk as well.
    """

    line: ExternKernel
    place: Place
    waits_for: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Work that an op has started, and the storages that it reads."""

    event: Event
    read: tuple[Storage, ...]


@dataclass(slots=True, eq=False)
class Collectives:
    """Checks of storages that a collective is still using."""

    state: State
    lifetimes: Lifetimes
    schedule: list[Event] = field(default_factory=list)
    """All events in the order of the program's text."""
    _writing: dict[Storage, _Work] = field(default_factory=dict)
    _reading: dict[Storage, set[_Work]] = field(default_factory=dict)

    def check(self, line: AnyLine, found: Effects) -> None:
        """Check that a line does not touch storage in use, or record that it waits."""
        waits = waits_for_work(line)
        if not (waits or self._writing or self._reading):
            return
        ended: dict[Event, None] = {}
        for name in dict.fromkeys((*found.reads, *found.writes, *found.takes)):
            for storage in self.lifetimes.storages(name):
                work = self._writing.get(storage)
                if work is not None:
                    if waits:
                        ended[work.event] = None
                    else:
                        self._report(name, work)
                    self._end(storage, work)
        for name in dict.fromkeys((*found.writes, *found.takes)):
            for storage in self.lifetimes.storages(name):
                for work in self._reading.pop(storage, ()):
                    self._report(name, work)
        if waits and calls_op(line):
            self.schedule.append(Event(line, self.state.here(), tuple(ended)))

    def check_result(self, name: str, place: Place) -> None:
        """Check that a result is not in use by a collective."""
        for storage in self.lifetimes.storages(name):
            work = self._writing.get(storage)
            if work is not None:
                self._report(name, work, place)

    def check_end(self, frame: Frame) -> None:
        """Check what belongs to the caller when a region ends.

        A collective that a region started uses no parameter of its, and one that a program started
        writes no input.
        """
        place = Place(frame, None, "results[0]" if frame.region.results else "results")
        in_use = [*self._writing.items()]
        in_use += [(storage, work) for storage, each in self._reading.items() for work in each]
        for storage, work in in_use:
            if storage.first.kind is Kind.PARAM and storage.place.frame is frame:
                self._report(storage.owner, work, place)
            is_input = storage.first.kind is Kind.INPUT and frame is self.state.root
            if is_input and self._writing.get(storage) is work:
                self._report(storage.owner, work, place)

    def start(self, line: ExternKernel) -> None:
        """Record the storages that a collective uses. Its results are already defined."""
        is_known = line.op.partition("::")[0] in OF_TORCH
        if waits_for_work(line) or (is_known and not is_collective(line)):
            return
        self._check_gaps(line)
        event = Event(line, self.state.here())
        self.schedule.append(event)
        if begins_work(line):
            found = effects(line)
            names = worked_on(line, found)
            written = [each for name in names for each in self.lifetimes.storages(name)]
            given = [each for name in found.reads for each in self.lifetimes.storages(name)]
            work = _Work(event, tuple(each for each in given if each not in written))
            self._writing.update(dict.fromkeys(written, work))
            for storage in work.read:
                self._reading.setdefault(storage, set()).add(work)

    def _check_gaps(self, line: ExternKernel) -> None:
        """Check that memory that an op takes as one piece has no gaps."""
        if not ignores_strides(line):
            return
        for name in effects(line).writes:
            buffer = self.lifetimes.buffers.get(name)
            layout = buffer.layout if buffer else None
            facts = self.state.facts
            if layout and facts.exceeds(layout.extent, layout.numel, sizes_of(layout)):
                self.state.report(rules.GAPS, name=name, op=shown(line.op))

    def _end(self, storage: Storage, work: _Work) -> None:
        """Remove work that was waited for. One wait may cover all results of an op."""
        del self._writing[storage]
        for each in work.read:
            left = self._reading.get(each, set())
            left.discard(work)
            if not left:
                self._reading.pop(each, None)

    def _report(self, name: str, work: _Work, place: Place | None = None) -> None:
        line, source = work.event.line, self.state.program.source_of(work.event.line)
        at = f" at {work.event.place}" + (f" ({source})" if source else "")
        self.state.report(rules.NOT_WAITED_FOR, place=place, name=name, op=shown(line.op), at=at)
