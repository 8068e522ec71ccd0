"""The spans of one call, for a viewer of traces: as they were measured, and as a profiler saw them.

A profiler makes all parts longer, and sends the call through torch's wrappers; what it alone sees,
ops, lines and memory, is therefore on a thread of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.explorer import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: The threads of a trace.
_THREADS = ("one call", "one call under torch's profiler, which makes it longer")


@dataclass(frozen=True)
class Span:
    """A part of one call.

    Attributes:
        name: What it is.
        kind: ``call``, ``dynamo``, ``guards``, ``guard``, ``wrappers``, ``program``, ``checks`` or
            ``lines``; ``profiled`` for what torch's profiler recorded.
        start_us: When it began, in microseconds after the call.
        us: How long it took.
        bytes: The memory that it allocated, less what it freed, of which the profiler knows.
    """

    name: str
    kind: str
    start_us: float
    us: float
    bytes: int = 0


@dataclass(frozen=True)
class Part:
    """A graph's part in a call, in nanoseconds of a clock.

    Attributes:
        start: When Dynamo called it; None where that is not seen.
        end: When it returned to Dynamo.
        program: When its program began, and when it ended.
        checks: How long the program checks its arguments; None where that cannot be told.
    """

    start: int | None
    end: int
    program: tuple[int, int]
    checks: int | None


def measured(
    start: int, end: int, parts: Sequence[Part], guards: Sequence[tuple[str, float]], us: float
) -> Iterator[Span]:
    """Yield the spans of one call, outer ones first.

    Args:
        start: When the call began, in nanoseconds of a clock.
        end: When it ended.
        parts: Its graphs, in order.
        guards: Each guard, with the microseconds that it takes alone. They are shown one after the
            other, in proportion, where Dynamo's part begins.
        us: Microseconds that they take together.
    """
    yield _span("the call", "call", start, start, end)
    before = start
    for number, part in enumerate(parts):
        first = part.program[0] if part.start is None else part.start
        name = "Dynamo, and Python between graphs" if number else "Dynamo's look-up and guards"
        yield _span(name, "dynamo", start, before, first)
        if not number:
            yield from _guards(guards, min(us, (first - start) / 1e3))
        if part.start is not None:
            name = f"graph {number}: from Dynamo to the program"
            yield _span(name, "wrappers", start, part.start, part.end)
        began, ended = part.program
        yield _span(f"graph {number}: the program", "program", start, began, ended)
        if part.checks is not None:
            lines = min(ended, began + part.checks)
            yield _span("checks of arguments, measured apart", "checks", start, began, lines)
            yield _span("lines", "lines", start, lines, ended)
        before = part.end


def _guards(guards: Sequence[tuple[str, float]], us: float) -> Iterator[Span]:
    alone = sum(each for _, each in guards)
    if not alone:
        return
    yield Span(f"{len(guards)} guards, measured apart", "guards", 0.0, us)
    at = 0.0
    for text, each in guards:
        yield Span(text, "guard", at, each * us / alone)
        at += each * us / alone


def _span(name: str, kind: str, zero: int, start: int, end: int) -> Span:
    return Span(name, kind, (start - zero) / 1e3, max(0, end - start) / 1e3)


def profiled(call: Callable[[], object]) -> Iterator[Span]:
    """Yield what torch's profiler records of one call.

    Lines and allocations of a program are among that if it was compiled with ``profile=True``.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        call()  # the first one under a profiler pays for its tables
        with torch.profiler.record_function("the call"):
            call()
    found: list[Any] = list(profile.events())
    (whole,) = (each for each in found if each.is_user_annotation)
    start, end = whole.time_range.start, whole.time_range.end
    for each in found:
        time = each.time_range
        if each.thread == whole.thread and start <= time.start and time.end <= end:
            length = time.end - time.start
            used = each.cpu_memory_usage
            yield Span(each.name, "profiled", time.start - start, length, bytes=used)


def trace_of(spans: Sequence[Span]) -> dict[str, Any]:
    """Return spans as Chrome's trace events."""
    made = [events.named("process_name", (1, 0), "wir.explain_call")]
    made += [
        events.named("thread_name", (1, number), name)
        for number, name in enumerate(_THREADS, start=1)
    ]
    for each in spans:
        thread = (1, 2 if each.kind == "profiled" else 1)
        event = events.span(each.name, each.kind, thread, each.start_us, each.us)
        made.append(event | (events.about(bytes=each.bytes) if each.bytes else {}))
    return events.trace(made)
