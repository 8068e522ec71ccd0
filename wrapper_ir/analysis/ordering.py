"""Order that events and waits put among streams: what is known to be done when.

Lines are issued in the program's order, and each stream does its own in that order; between streams
nothing is certain but what a wait says. So for each stream it is kept how far every other one has
come, for certain, before what is put on it next: positions of lines, counted from 1. What happened
before the program counts as position 0 of the caller's stream. The user's streams are taken to have
waited for that, as they would have to without us; the program's own have not.

The host is one more that can wait: what is issued afterwards comes after what it has waited for.
The current streams of several devices count as one, the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.lines import (
    CPU,
    BindSymbol,
    ExternKernel,
    ItemOf,
    PartialLineVisitor,
    RecordEvent,
    ScalarArg,
    Synchronize,
    WaitEvent,
    effects,
)
from wrapper_ir.lines.traits import works

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Program

HOST: Final = -1
"""The host among the streams."""

CALLER: Final = 0
"""The stream that is current where the program is called."""


class Touch(NamedTuple):
    """The buffers whose memory a line's work reads and writes, and the stream that it is on.

    Storage that it makes is for work on that stream: what the memory was used for before is done
    there.
    """

    stream: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    made: tuple[str, ...]


def touch(line: AnyLine, program: Program) -> Touch:
    """Return what a line's work does to memory of devices."""
    found = effects(line, program)
    views = {alias.name for alias in found.aliases}
    viewed = {alias.source for alias in found.aliases}
    fresh = () if found.takes else (name for name in found.defines if name not in views)
    return Touch(
        line.stream if works(line) else CALLER,
        tuple(n for n in found.reads if n not in viewed and _on_device(n, program)),
        tuple(n for n in found.writes if _on_device(n, program)),
        tuple(n for n in fresh if _on_device(n, program)),
    )


def _on_device(name: str, program: Program) -> bool:
    """Return whether a buffer is in memory that streams work on."""
    layout = program.buffers.get(name)
    return layout is not None and layout.device != CPU


class Clocks(PartialLineVisitor[None]):
    """Vector clocks: how far each stream is known to have come before another goes on.

    Args:
        program: The program; its lines are gone over with :meth:`step`.
    """

    def __init__(self, program: Program) -> None:
        self._streams = program.streams
        self._layouts = program.buffers
        self._seen: dict[int, dict[int, int]] = {HOST: {}, CALLER: {}}
        for number, stream in enumerate(program.streams, start=1):
            self._seen[number] = {} if stream.user_object is None else {CALLER: 0}
        #: What was done when each event was last recorded.
        self._events: dict[int, dict[int, int]] = {}
        self._position = 0

    def sees(self, stream: int, other: int, position: int) -> bool:
        """Return whether what ``other`` does up to a position is done before ``stream`` goes on."""
        if stream == other:
            return True
        known = self._seen.get(stream, {}).get(other, HOST)
        return max(known, self._seen[HOST].get(other, HOST)) >= position

    def is_recorded(self, event: int) -> bool:
        """Return whether a line so far has recorded an event."""
        return event in self._events

    def step(self, line: AnyLine, position: int) -> None:
        """Goes past a line of the body."""
        self._position = position
        self.visit(line)

    def visit_unsupported(self, line: AnyLine) -> None:
        """Other lines order nothing."""

    def visit_record_event(self, line: RecordEvent) -> None:
        self._events[line.event] = self._at(line.stream, self._position)

    def visit_wait_event(self, line: WaitEvent) -> None:
        waiting = HOST if line.device == CPU else line.stream
        self._learn(waiting, self._events.get(line.event, {}))

    def visit_synchronize(self, line: Synchronize) -> None:
        self._learn(HOST, self._at(CALLER, self._position))
        for number, stream in enumerate(self._streams, start=1):
            if stream.device == line.device:
                self._learn(HOST, self._at(number, self._position))

    def visit_bind_symbol(self, line: BindSymbol) -> None:
        if isinstance(line.source, ItemOf):  # the host waits for what it reads
            self._learn(HOST, self._at(CALLER, self._position))

    def visit_extern_kernel(self, line: ExternKernel) -> None:
        if self._comes_back(line):
            self._learn(HOST, self._at(line.stream, self._position))

    def _comes_back(self, line: ExternKernel) -> bool:
        """Return whether a call copies to the host and waits for it, unless it says otherwise."""
        written = effects(line).written
        on_host = any(
            name in self._layouts and self._layouts[name].device == CPU for name in written
        )
        flags = (*line.args, *(value for _, value in line.kwargs))
        return line.device != CPU and on_host and ScalarArg(value=True) not in flags

    def _at(self, stream: int, position: int) -> dict[int, int]:
        """Return what is done when a stream has come so far."""
        found = {**self._seen[HOST]}
        _merge(found, self._seen.get(stream, {}))
        return {**found, stream: position}

    def _learn(self, stream: int, known: dict[int, int]) -> None:
        _merge(self._seen.setdefault(stream, {}), known)


def _merge(into: dict[int, int], known: dict[int, int]) -> None:
    for stream, position in known.items():
        into[stream] = max(into.get(stream, position), position)
