"""Exports for other viewers: Chrome's trace events (Perfetto), and snapshots of torch's memory.

Each line of the main body takes one microsecond. If a run was recorded, calls take what was
measured and other lines none. Lines in regions belong to the line that holds them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.explorer.document import NONE
from wrapper_ir.explorer.events import about, named, span, trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.explorer.document import Order, View

#: The kinds of lines that are shown as work.
_WORK: Final = ("kernel", "op", "collective", "wait", "control")

#: Threads of the trace: a stream's number and this; collectives have the first ones.
_HOST: Final = 1

#: Where made-up addresses begin, and what pieces of memory begin at multiples of.
_BASE: Final = 0x7F0000000000
_PIECE: Final = 1 << 21


def perfetto(views: list[View]) -> dict[str, Any]:
    """Return programs as Chrome trace events, one process each: streams, waits, bytes held."""
    traces = [_Trace(view, pid) for pid, view in enumerate(views, start=1)]
    return trace([event for each in traces for event in each.events()])


class _Trace:
    """The events of one program, which is a process."""

    def __init__(self, view: View, pid: int) -> None:
        self._view, self._pid = view, pid
        self._places = _places(view)
        self._begins = _begins(view, self._places)
        self._rows = {line: row for row, line in enumerate(view.text.lines)}
        self._flight = len(view.streams) + _HOST

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the names of threads, and what is on them."""
        view = self._view
        yield named("process_name", (self._pid, 0), f"{view.name} ({view.role})")
        threads = [*view.streams, *["collectives in flight"][: len(view.orders)]]
        for thread, name in enumerate(threads, start=_HOST):
            yield named("thread_name", (self._pid, thread), name)
        for number, at in self._places.items():
            if view.lines.kind[number] in _WORK:
                name, facts = self._about(number)
                kind, thread = view.lines.kind[number], self._thread(number)
                yield self._span(kind, name, thread, at, at + 1) | facts
        for row, order in enumerate(view.orders):
            yield from self._ordered(row, order) if order.start != NONE else ()
        for at, held in (
            pair for plan in view.plans if plan.shown for pair in enumerate(plan.held)
        ):
            ts = self._begins[at] if at < len(self._begins) else self._begins[-1]
            yield {"name": "memory held", "ph": "C", "pid": self._pid, "ts": ts} | about(bytes=held)

    def _thread(self, number: int) -> int:
        return self._view.lines.stream[number] + 1 + _HOST

    def _span(self, kind: str, name: str, thread: int, start: int, end: int) -> Any:
        """Return an event from the beginning of one position to that of another."""
        ts, duration = self._begins[start], self._begins[end] - self._begins[start]
        return span(name, kind, (self._pid, thread), ts, duration)

    def _ordered(self, row: int, order: Order) -> Iterator[dict[str, Any]]:
        start, end = self._places[order.start], self._places[order.end]
        if order.kind == "collective":
            name = self._about(order.start)[0]
            yield self._span("collective", name, self._flight, start, end + 1)
            return
        for sign, at, number in (("s", start, order.start), ("f", end, order.end)):
            ts = (self._begins[at] + self._begins[at + 1]) / 2
            where = {"ph": sign, "pid": self._pid, "tid": self._thread(number), "ts": ts}
            yield {"name": "event", "cat": "wait", "id": row, "bp": "e", **where}

    def _about(self, number: int) -> tuple[str, dict[str, Any]]:
        """Return the name of a line for a trace, and what is known of it."""
        view, origin = self._view, self._view.lines.origin[number]
        text = view.text.rows[self._rows[number]].strip()
        facts: dict[str, Any] = {"path": view.lines.path[number], "line": text}
        if 0 <= origin < len(view.origins.module):
            facts |= {"module": view.origins.module[origin], "ops": view.origins.ops[origin]}
            for frame in _frames(view, origin)[:1]:
                facts["source"] = f"{frame['filename']}:{frame['line']}"
        if number in view.recorded:
            facts["recorded"] = view.recorded[number]
        if number in view.times:
            facts |= dataclasses.asdict(view.times[number])
        return view.lines.callee[number] or view.lines.mnemonic[number], about(**facts)


def _begins(view: View, places: dict[int, int]) -> list[float]:
    """Return the microsecond at which each position begins, and that at which the last one ends."""
    found = [0.0]
    for number in places:
        time = view.times.get(number)
        took = 1.0 if not view.times else 0.0 if time is None else round(1e6 * time.seconds, 3)
        found.append(found[-1] + took)
    return found


def _places(view: View) -> dict[int, int]:
    """Return the position in the main body of each of its lines."""
    numbers = (n for n, path in enumerate(view.lines.path) if path.count("[") == 1)
    own = [n for n in numbers if view.lines.path[n].startswith("body[")]
    return {number: position for position, number in enumerate(own)}


def _frames(view: View, origin: int) -> list[dict[str, Any]]:
    """Return the frames of an origin as torch's snapshots have them: innermost first."""
    columns, shown = view.frames, view.origins.shown[origin]
    rows = [shown, *(row for row in reversed(view.origins.frames[origin]) if row != shown)]
    return [
        {
            "filename": view.files[columns.file[row]].name,
            "line": columns.line[row],
            "name": columns.function[row],
        }
        for row in rows
        if row != NONE
    ]


def memory_snapshot(view: View) -> dict[str, Any]:
    """Return the memory of a program's main body as ``torch.cuda.memory._snapshot`` has it.

    Each allocation has the model's frames. Addresses are those of the plan where it has arenas, and
    made up elsewhere. All devices are shown as one.
    """
    (plan,) = (each for each in view.plans if each.shown)
    starts = {position: number for number, position in _places(view).items()}
    events: list[tuple[int, int, dict[str, Any]]] = []
    segments, base = [], _BASE
    for panel in plan.panels:
        if panel.region:
            continue
        total = -(-panel.bytes // _PIECE) * _PIECE
        segments.append(_segment(base, total, panel.title))
        frames: list[dict[str, Any]] = []
        opened = {"action": "segment_alloc", "addr": base, "size": total, "frames": frames}
        events.append((-2, 1, {**opened, "stream": 0}))
        for row, name in enumerate(panel.names):
            number = starts.get(panel.starts[row], NONE)
            span = {"addr": base + panel.offsets[row], "size": panel.sizes[row], "stream": 0}
            made = {**span, "frames": [_itself(view, number, name), *_model(view, number)]}
            events.append((panel.starts[row], 1, {"action": "alloc", **made}))
            if panel.ends[row] < panel.length:
                for order, action in ((-1, "free_requested"), (0, "free_completed")):
                    events.append((panel.ends[row], order, {"action": action, **made}))
        base += total
    events.sort(key=lambda each: each[:2])
    times = [{**event, "time_us": max(at, 0)} for at, _, event in events]
    return {"segments": segments, "device_traces": [times]}


def _itself(view: View, number: int, name: str) -> dict[str, Any]:
    """Return a frame for the line of the program, innermost of an allocation's frames."""
    path = view.lines.path[number] if number != NONE else "input"
    return {"filename": f"{view.name}.wir", "line": number + 1, "name": f"%{name} ({path})"}


def _model(view: View, number: int) -> list[dict[str, Any]]:
    origin = view.lines.origin[number] if number != NONE else NONE
    return _frames(view, origin) if 0 <= origin < len(view.origins.module) else []


def _segment(address: int, total: int, title: str) -> dict[str, Any]:
    block = {"address": address, "size": total, "requested_size": total, "state": "inactive"}
    sizes = {"total_size": total, "allocated_size": 0, "active_size": 0, "requested_size": 0}
    where = {"device": 0, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0)}
    frames = [{"filename": title, "line": 0, "name": title}]
    return {"address": address, **sizes, **where, "blocks": [block], "frames": frames}
