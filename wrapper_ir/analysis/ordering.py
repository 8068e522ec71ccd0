"""Streams that lines are carried out on, what of the user's they depend on, and their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import begins_work, waits_for_work
from wrapper_ir.lines.base import Runs
from wrapper_ir.lines.traits import ends, has_event, takes_memory, works

if TYPE_CHECKING:
    from collections.abc import Iterable


def needs_streams(line: ir.AnyLine, program: ir.Program) -> str:
    """Return why a line needs more than the caller's stream; "" if it does not.

    In calls that are not captured, branches of a graph are the caller's stream.
    """
    if line.runs.orders:
        return "" if _is_on_branches(line, program) else "it puts streams in order"
    if ends(line) and line.after:
        return "its memory is used on several streams"
    if takes_memory(line) and line.mempool:
        return "its memory is from a memory pool of the user's"
    if works(line) and line.stream and not _is_on_branches(line, program):
        return f"it is on stream {line.stream}"
    return ""


def users_object(line: ir.AnyLine, program: ir.Program) -> str:
    """Return which stream, event or memory pool of the user a line depends on; "" for none."""
    stream = line.stream if works(line) or has_event(line) else 0
    if stream and program.streams[stream - 1].user_object is not None:
        return f"stream {stream} is the user's"
    if has_event(line) and program.events[line.event - 1].user_object is not None:
        return f"event {line.event} is the user's"
    return pool_of(line)


def pool_of(line: ir.AnyLine) -> str:
    """Return the memory pool that a line allocates from; "" for none."""
    pool = line.mempool if takes_memory(line) else 0
    return f"its memory is from memory pool {pool}" if pool else ""


def has_users_queues(program: ir.Program) -> bool:
    """Return whether a program uses streams or events of the user's."""
    streams = (stream.user_object for stream in program.streams)
    events = (event.user_object for event in program.events)
    return any(number is not None for number in (*streams, *events))


def ordered_by_caller(program: ir.Program) -> frozenset[int]:
    """Return the streams that have waited for the caller, who waits for them: the user's.

    Not in a backward pass: nobody who calls one knows what streams it uses.
    """
    if program.role is ir.GraphRole.BACKWARD:
        return frozenset()
    streams = enumerate(program.streams, start=1)
    return frozenset(number for number, each in streams if each.user_object is not None)


def stream_of(line: ir.AnyLine) -> int | None:
    """Return the stream that a line must run on; None if it runs nothing on a stream."""
    if works(line):
        return line.stream
    if line.runs is Runs.HOST:  # what the host reads, the caller's stream has computed
        found = ir.effects(line)
        return 0 if found.reads or found.writes else None
    return 0 if line.runs is Runs.CALLER else None


def is_branched(program: ir.Program) -> bool:
    """Return whether there are streams besides the caller's, all of them captured."""
    return bool(program.streams) and all(stream.captured for stream in program.streams)


def needs_queues(program: ir.Program) -> bool:
    """Return whether a program has streams or events, or waits for all streams of a device."""
    if program.streams or program.events:
        return True
    return any(line.runs is Runs.WAIT for line in program.body)


def _is_on_branches(line: ir.AnyLine, program: ir.Program) -> bool:
    """Return whether a line runs on a branch of a captured graph, or only orders branches."""
    if (works(line) or has_event(line)) and line.stream:
        return program.streams[line.stream - 1].captured
    return has_event(line) and line.device != ir.CPU and is_branched(program)


# Happens-before order among streams, as established by events and waits.
#
# Lines are issued in program order, and each stream runs its own lines in that order. Only waits
# order different streams. So each stream has a vector clock: for every other stream, the position
# of the last line, counted from 1, that is certain to be done before the stream's next work starts.
# Work from before the program has position 0 of the caller's stream. The user's streams are assumed
# to have waited for that, as they would have to without us; the program's own streams have not, and
# neither have the user's in a backward pass: without us, autograd's engine would see to it.
#
# The host can wait too: lines issued afterwards come after the work that it has waited for. The
# current streams of several devices count as one, the caller's.


HOST: Final = -1
"""The host's number among the streams."""

CALLER: Final = 0
"""The stream that is current when the program is called."""


class Touch(NamedTuple):
    """The buffers whose device memory a line reads, writes and allocates, and its stream.

    Memory is allocated for that stream: earlier uses of it are done there.
    """

    stream: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    made: tuple[str, ...]


def touch(line: ir.AnyLine, program: ir.Program) -> Touch:
    """Return the uses of device memory by a line.

    A wait for a collective counts as a write of what it waits for: that is there for streams that
    come after the wait, and not for those that come after the collective alone.
    """
    found = ir.effects(line, program)
    views = {alias.name for alias in found.aliases}
    viewed = {alias.source for alias in found.aliases}
    fresh = () if found.takes else (name for name in found.defines if name not in views)
    awaited = (*found.reads, *viewed) if waits_for_work(line) else ()
    return Touch(
        line.stream if works(line) else CALLER,
        tuple(n for n in found.reads if n not in viewed and _on_device(n, program)),
        tuple(n for n in dict.fromkeys((*found.writes, *awaited)) if _on_device(n, program)),
        tuple(n for n in fresh if _on_device(n, program)),
    )


def read_until(line: ir.AnyLine, writers: Iterable[int], program: ir.Program) -> tuple[str, ...]:
    """Return what collectives read until a line waits for them.

    Args:
        line: A line of the body.
        writers: The indices of the lines that last wrote what it uses.
        program: The program.
    """
    if not waits_for_work(line):
        return ()
    begun = (program.body[n] for n in writers if n >= 0 and begins_work(program.body[n]))
    return tuple(name for each in begun for name in touch(each, program).reads)


def _on_device(name: str, program: ir.Program) -> bool:
    """Return whether a buffer is in device memory, which streams work on."""
    layout = program.buffers.get(name)
    return layout is not None and layout.device != ir.CPU


def comes_back(line: ir.ExternKernel, program: ir.Program) -> bool:
    """Return whether a call is a blocking copy to the host."""
    layouts = program.buffers
    written = ir.effects(line).written
    on_host = any(name in layouts and layouts[name].device == ir.CPU for name in written)
    flags = (*line.args, *(value for _, value in line.kwargs))
    return line.device != ir.CPU and on_host and ir.ScalarArg(value=True) not in flags


class Clocks(ir.PartialLineVisitor[None]):
    """Vector clocks of a program's streams.

    :meth:`step` advances over its lines.
    """

    def __init__(self, program: ir.Program) -> None:
        self._streams = program.streams
        self._program = program
        self._seen: dict[int, dict[int, int]] = {HOST: {}, CALLER: {}}
        for number in range(1, len(program.streams) + 1):
            self._seen[number] = {}
        for number in ordered_by_caller(program):
            self._seen[number][CALLER] = 0
        #: The clock when each event was last recorded.
        self._events: dict[int, dict[int, int]] = {}
        self._position = 0

    def sees(self, stream: int, other: int, position: int) -> bool:
        """Return whether ``other`` is done up to a position before ``stream`` goes on."""
        if stream == other:
            return True
        known = self._seen.get(stream, {}).get(other, HOST)
        return max(known, self._seen[HOST].get(other, HOST)) >= position

    def is_recorded(self, event: int) -> bool:
        """Return whether an event has been recorded so far."""
        return event in self._events

    def step(self, line: ir.AnyLine, position: int) -> None:
        """Advance over a line of the body."""
        self._position = position
        self.visit(line)

    def visit_unsupported(self, line: ir.AnyLine) -> None:
        """Let the host wait for what a line of its own reads. Others order nothing."""
        assert not line.runs.orders, f"nobody says what '{line.mnemonic}' orders"
        if line.runs is Runs.HOST and ir.effects(line).reads:
            self._learn(HOST, self._at(CALLER, self._position))

    def visit_record_event(self, line: ir.RecordEvent) -> None:
        self._events[line.event] = self._at(line.stream, self._position)

    def visit_wait_event(self, line: ir.WaitEvent) -> None:
        waiting = HOST if line.device == ir.CPU else line.stream
        self._learn(waiting, self._events.get(line.event, {}))

    def visit_synchronize(self, line: ir.Synchronize) -> None:
        self._learn(HOST, self._at(CALLER, self._position))
        for number, stream in enumerate(self._streams, start=1):
            if stream.device == line.device:
                self._learn(HOST, self._at(number, self._position))

    def visit_extern_kernel(self, line: ir.ExternKernel) -> None:
        if comes_back(line, self._program):
            self._learn(HOST, self._at(line.stream, self._position))

    def _at(self, stream: int, position: int) -> dict[int, int]:
        """Return the clock of a stream once it has reached a position."""
        found = {**self._seen[HOST]}
        _merge(found, self._seen.get(stream, {}))
        return {**found, stream: position}

    def _learn(self, stream: int, known: dict[int, int]) -> None:
        _merge(self._seen.setdefault(stream, {}), known)


def _merge(into: dict[int, int], known: dict[int, int]) -> None:
    for stream, position in known.items():
        into[stream] = max(into.get(stream, position), position)
