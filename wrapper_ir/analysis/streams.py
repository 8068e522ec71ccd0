"""Streams: the ones that lines are carried out on, and what of the user's they depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.base import Runs
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import CPU
from wrapper_ir.lines.traits import ends, has_event, takes_memory, works

if TYPE_CHECKING:
    from wrapper_ir.lines.program import AnyLine, Program


def needs_streams(line: AnyLine, program: Program) -> str:
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


def users_object(line: AnyLine, program: Program) -> str:
    """Return which stream, event or memory pool of the user a line depends on; "" for none."""
    stream = line.stream if works(line) or has_event(line) else 0
    if stream and program.streams[stream - 1].user_object is not None:
        return f"stream {stream} is the user's"
    if has_event(line) and program.events[line.event - 1].user_object is not None:
        return f"event {line.event} is the user's"
    return pool_of(line)


def pool_of(line: AnyLine) -> str:
    """Return the memory pool that a line allocates from; "" for none."""
    pool = line.mempool if takes_memory(line) else 0
    return f"its memory is from memory pool {pool}" if pool else ""


def has_users_queues(program: Program) -> bool:
    """Return whether a program uses streams or events of the user's."""
    streams = (stream.user_object for stream in program.streams)
    events = (event.user_object for event in program.events)
    return any(number is not None for number in (*streams, *events))


def stream_of(line: AnyLine) -> int | None:
    """Return the stream that a line must run on; None if it runs nothing on a stream."""
    if works(line):
        return line.stream
    if line.runs is Runs.HOST:  # what the host reads, the caller's stream has computed
        found = effects(line)
        return 0 if found.reads or found.writes else None
    return 0 if line.runs is Runs.CALLER else None


def is_branched(program: Program) -> bool:
    """Return whether there are streams besides the caller's, all of them captured."""
    return bool(program.streams) and all(stream.captured for stream in program.streams)


def needs_queues(program: Program) -> bool:
    """Return whether a program has streams or events, or waits for all streams of a device."""
    if program.streams or program.events:
        return True
    return any(line.runs is Runs.WAIT for line in program.body)


def _is_on_branches(line: AnyLine, program: Program) -> bool:
    """Return whether a line runs on a branch of a captured graph, or only orders branches."""
    if (works(line) or has_event(line)) and line.stream:
        return program.streams[line.stream - 1].captured
    return has_event(line) and line.device != CPU and is_branched(program)
