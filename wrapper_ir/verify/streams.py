"""Checks of streams: declarations, and the order of accesses to memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ordering import (
    CALLER,
    Clocks,
    Touch,
    ordered_by_caller,
    read_until,
    touch,
)
from wrapper_ir.lines.traits import calls, ends, takes_memory, works
from wrapper_ir.verify import rules
from wrapper_ir.verify.state import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.rules import Rule
    from wrapper_ir.verify.state import State, Storage


@dataclass(slots=True)
class _History:
    """The relevant accesses of streams to a storage, with positions of lines."""

    stream: int = CALLER
    """The stream that allocated it."""
    writer: tuple[int, int] = (CALLER, 0)
    readers: dict[int, int] = field(default_factory=dict)

    def before(self, *, writes: bool) -> Iterator[tuple[int, int]]:
        """Yield the accesses that must precede a read or write."""
        yield self.writer
        if writes:
            yield from self.readers.items()


class Streams(ir.PartialLineVisitor[str]):
    """Checks of where and when lines run."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self.state = state
        self.lifetimes = lifetimes
        self.clocks: Clocks = Clocks(state.program)
        self._histories: dict[Storage, _History] = {}
        self._event_devices: dict[int, ir.Device] = {}
        self._last_on: dict[int, int] = {}
        self._is_faulty = False

    def check(self, line: ir.AnyLine, found: ir.Effects) -> None:
        """Check a line whose definitions have been entered."""
        self._is_faulty = False
        self._check_numbers(line)
        if self._is_faulty or not self.state.program.streams:
            return
        if self.state.frame is not self.state.root:
            return
        assert self.state.index is not None
        position = self.state.index + 1
        for name in found.takes:
            for old in self.lifetimes.storages(name):
                for new in self.lifetimes.storages(found.defines[0]):
                    self._histories[new] = self._history(old)
        self._do(line, touch(line, self.state.program), position)
        if works(line):
            self._last_on[line.stream] = position
        if ends(line):
            self._check_end(line)
        self.clocks.step(line, position)

    # Numbers.

    def _check_numbers(self, line: ir.AnyLine) -> None:
        """Check that streams, events and memory pools are declared for the right device."""
        what = self.visit(line)
        if what and self.state.frame is not self.state.root:
            self.state.report(rules.STREAM_IN_REGION, mnemonic=line.mnemonic, what=what)

    def visit_unsupported(self, line: ir.AnyLine) -> str:
        """Check the stream and the memory pool that a line names, if any, and describe them."""
        if not works(line):
            return ""
        device = line.device if calls(line) else self._device_of(ir.effects(line).defines)
        what = self._check_stream(line.stream, device)
        if not (takes_memory(line) and line.mempool):
            return what
        why = _why_not(line.mempool, self.state.program.mempools, device)
        if why:
            self._report(rules.BAD_MEMPOOL, mempool=line.mempool, why=why)
        return "a memory pool"

    def _device_of(self, names: Sequence[str]) -> ir.Device | None:
        """Return the device of the first buffer that has a layout."""
        layouts = (self.state.program.buffers.get(name) for name in names)
        return next((layout.device for layout in layouts if layout is not None), None)

    def visit_record_event(self, line: ir.RecordEvent) -> str:
        if self._is_declared(line.event):
            known = self._event_devices.get(line.event, line.device)
            if line.device == ir.CPU:
                self._report(rules.BAD_STREAM, stream=line.stream, why="the host has none")
            elif known != line.device:
                why = f"it is recorded on {known} above, and here on {line.device}"
                self._report(rules.BAD_EVENT, event=line.event, why=why)
            else:
                self._event_devices[line.event] = known
        return self._check_stream(line.stream, line.device) or "an event"

    def visit_wait_event(self, line: ir.WaitEvent) -> str:
        if self._is_declared(line.event) and self._is_never_set(line.event):
            self._report(rules.WAIT_BEFORE_RECORD, event=line.event)
        if self.state.frame is self.state.root and self.state.index is not None:
            self._last_on[line.stream] = self.state.index + 1
        return self._check_stream(line.stream, line.device) or "an event"

    def visit_synchronize(self, line: ir.Synchronize) -> str:
        return "the host to wait"

    def visit_free(self, line: ir.Free) -> str:
        what = ""
        for stream in line.after:
            what = self._check_stream(stream, None)
        return what

    def _check_stream(self, stream: int, device: ir.Device | None) -> str:
        """Check a line's stream and describe it; empty for the caller's."""
        if stream == CALLER:
            return ""
        why = _why_not(stream, self.state.program.streams, device)
        if why:
            self._report(rules.BAD_STREAM, stream=stream, why=why)
        return f"stream {stream}"

    def _is_declared(self, event: int) -> bool:
        """Check that the program declares an event."""
        if 0 < event <= len(self.state.program.events):
            return True
        self._report(rules.BAD_EVENT, event=event, why="it is not declared")
        return False

    def _is_never_set(self, event: int) -> bool:
        """Return whether an event was not recorded. The user may have recorded a user's event."""
        is_own = self.state.program.events[event - 1].user_object is None
        return is_own and not self.clocks.is_recorded(event)

    def _report(self, rule: Rule, **fields: str | int) -> None:
        """Record a fault that makes it unclear where or when the line runs."""
        self._is_faulty = True
        self.state.report(rule, place=None, part="", about=None, **fields)

    # Order.

    def _do(self, line: ir.AnyLine, work: Touch, position: int) -> None:
        """Check that the accesses of a line are ordered after earlier ones."""
        program = self.state.program
        storages = (each for name in work.writes for each in self.lifetimes.storages(name))
        writers = (self._history(each).writer[1] - 1 for each in storages)  # read at waits alone
        until = read_until(line, writers, program)
        for names, writes in ((work.reads, False), (work.writes, True)):
            for name in names:
                for storage in self.lifetimes.storages(name):
                    self._order(name, self._history(storage), work.stream, writes=writes)
        for name in (*work.reads, *until):
            for storage in self.lifetimes.storages(name):
                self._history(storage).readers[work.stream] = position
        for name in work.writes:
            for storage in self.lifetimes.storages(name):
                history = self._history(storage)
                history.writer = (work.stream, position)
                history.readers.clear()
        for name in work.made:
            for storage in self.lifetimes.storages(name):
                self._histories[storage] = _History(work.stream, (work.stream, position))

    def _order(self, name: str, history: _History, stream: int, *, writes: bool) -> None:
        for other, position in history.before(writes=writes):
            if not self.clocks.sees(stream, other, position):
                at = f" at {self.state.root.path(position - 1)}" if position else " before"
                self.state.report(rules.RACE, stream=stream, name=name, other=other, at=at)

    def _check_end(self, line: ir.Free) -> None:
        """Check that no stream may still use memory that is freed."""
        for storage in self.lifetimes.storages(line.buffer):
            history = self._history(storage)
            for other, position in history.before(writes=True):
                # Slices have no allocator.
                is_covered = other in line.after and storage.slot is None
                if not is_covered and not self.clocks.sees(history.stream, other, position):
                    fault = partial(self.state.report, rules.ENDS_EARLY, name=line.buffer)
                    fault(about=self._place(position), other=other, stream=history.stream)

    def finish(self) -> None:
        """Check that the caller's stream has waited for streams that nobody else waits for."""
        program = self.state.program
        for number, stream in enumerate(program.streams, start=1):
            self._check_branch(number, stream)
        own = {n for n, s in enumerate(program.streams, start=1) if s.user_object is None}
        ordered = ordered_by_caller(program)
        open_: dict[str, tuple[str, int, int]] = {}
        for part, name in self._callers_names():
            for storage in self.lifetimes.storages(name):
                history = self._history(storage)
                if history.stream in own:
                    open_[part] = (name, history.stream, history.writer[1])
                for other, position in history.before(writes=True):
                    if other not in ordered and not self.clocks.sees(CALLER, other, position):
                        open_[part] = (name, other, position)
        for part, (name, other, position) in open_.items():
            about = self._place(position)
            self.state.report(rules.NOT_JOINED, part=part, about=about, name=name, other=other)

    def _place(self, position: int) -> Place | None:
        """Return the line at a position; 0 is before the program."""
        return Place(self.state.root, position - 1) if position else None

    def _check_branch(self, number: int, stream: ir.Stream) -> None:
        """Check that a captured stream is the program's own and joined at the end."""
        if not stream.captured:
            return
        part = f"streams[{number - 1}]"
        if stream.user_object is not None:
            why = "a user's stream exists in every call, not only in captured ones"
            self.state.report(rules.BAD_STREAM, part=part, stream=number, why=why)
        last = self._last_on.get(number)
        if last is not None and not self.clocks.sees(CALLER, number, last):
            self.state.report(rules.OPEN_BRANCH, part=part, stream=number)

    def _callers_names(self) -> Iterator[tuple[str, str]]:
        """Yield the buffers that the caller holds or receives, each with its place."""
        program = self.state.program
        for position, item in enumerate(program.inputs):
            if isinstance(item, ir.BufferInput):
                yield f"inputs[{position}]", item.name
        for name in program.constants:
            yield f"constants.{name}", name
        for position, value in enumerate(program.results):
            if isinstance(value, ir.BufferValue):
                yield f"results[{position}]", value.buffer

    def _history(self, storage: Storage) -> _History:
        return self._histories.setdefault(storage, _History())


def _why_not(
    number: int, declared: Sequence[ir.Stream | ir.MemoryPool], device: ir.Device | None
) -> str:
    """Explain why a line cannot use a stream or memory pool; empty if it can."""
    if not 0 < number <= len(declared):
        return "it is not declared"
    known = declared[number - 1].device
    return f"it is on {known}, but the line is on {device}" if device not in (None, known) else ""
