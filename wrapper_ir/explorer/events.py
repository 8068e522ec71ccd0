"""Chrome's trace events, which Perfetto shows: spans on threads of processes. Times are in us."""

from __future__ import annotations

from typing import Any, Final

from wrapper_ir.outputs import Kind, begins_with

#: A file of them.
TRACE: Final = Kind("a Chrome trace", begins_with(b'"traceEvents"'))


def span(name: str, kind: str, thread: tuple[int, int], start: float, length: float) -> Any:
    """Return a span on a thread, which is the numbers of its process and its own."""
    pid, tid = thread
    where = {"ph": "X", "pid": pid, "tid": tid, "ts": start, "dur": length}
    return {"name": name, "cat": kind, **where}


def named(what: str, thread: tuple[int, int], name: str) -> dict[str, Any]:
    """Return the name of a process (``process_name``) or a thread (``thread_name``)."""
    pid, tid = thread
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, **about(name=name)}


def about(**facts: object) -> dict[str, Any]:
    """Return what else a viewer shows of an event, for an event to be updated with."""
    return {"args": facts}


def trace(events: list[Any]) -> dict[str, Any]:
    """Return events as a file of them."""
    return {"displayTimeUnit": "ns", "traceEvents": events}
