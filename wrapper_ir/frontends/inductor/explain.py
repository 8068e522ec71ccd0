"""Where the time of a call goes: Dynamo, each of its guards, torch's wrappers, the programs.

The whole call is the calling thread's processor time, so that what kernels take on other threads
and devices is left out. Each part is the median of many calls, less what reading the clock takes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.call_inside import calls_inside, is_library
from wrapper_ir.frontends.inductor.call_trace import Part, Span, measured, profiled, trace_of
from wrapper_ir.frontends.inductor.call_watch import GraphSpan, Round, median_us, watched
from wrapper_ir.frontends.inductor.compat import cache_entries
from wrapper_ir.frontends.inductor.errors import NothingCalledError
from wrapper_ir.frontends.inductor.straight_gradients import torchs_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

_clock = time.perf_counter_ns

#: Guards that a report shows one by one.
_SHOWN = 8


@dataclass(frozen=True)
class Guard:
    """Guards of one kind on one value.

    Attributes:
        us: Microseconds a call.
        text: The guard as Dynamo words it.
    """

    us: float
    text: str


@dataclass(frozen=True)
class GraphTime:
    """One graph of a call.

    Attributes:
        around_us: Microseconds between Dynamo and the program; None where torch's wrappers cannot
            be told from Dynamo.
        program_us: Microseconds in the emitted function.
        checks_us: Microseconds of those that it takes to check its arguments, before its lines:
            types, devices, sizes, strides, alignment; None where that cannot be told. Programs in
            C++ compare sizes that vary among their lines, those in Python ranges and addresses.
        calls: What torch's profiler sees it call, and how often, with microseconds for all calls of
            each under the profiler, which makes them longer: library ops that it calls through
            PyTorch's dispatcher (C++ calls most directly), and all calls and allocations of a
            program that was compiled with ``profile=True``.
        hindrances: Why it is not called straight from Dynamo's frame; empty if it is.
        node: Why torch makes the node of autograd that records the call; empty if the node is ours,
            or if no gradients are recorded.
        is_cpp: Whether its program is in C++.
    """

    around_us: float | None
    program_us: float
    checks_us: float | None
    calls: dict[str, tuple[int, float]]
    hindrances: tuple[str, ...]
    node: str
    is_cpp: bool

    @property
    def lines_us(self) -> float | None:
        """Microseconds in the emitted function after its checks, or None."""
        return None if self.checks_us is None else self.program_us - self.checks_us


@dataclass(frozen=True)
class CallReport:
    """A breakdown of the time of a call. ``str`` gives a table.

    Attributes:
        total_us: Microseconds of the whole call.
        dynamo_us: What is left without the graphs: Dynamo's look-up and guards, and Python code
            between graphs.
        graphs: The graphs that it runs, in order.
        guards_us: What of that all guards together take.
        guards: Guards of all frames, the slowest first. They are timed one at a time from Python,
            so that their sum is more than they take together.
        spans: The parts of one call, for ``to_trace``.
    """

    total_us: float
    dynamo_us: float
    graphs: tuple[GraphTime, ...]
    guards_us: float
    guards: tuple[Guard, ...]
    spans: tuple[Span, ...] = field(default=(), repr=False)

    def advice(self) -> tuple[str, ...]:
        """Return what would make the call cheaper, and why it changes no result."""
        found = []
        if len(self.graphs) > 1:
            found.append(
                f"{len(self.graphs)} graphs: each has guards of its own;"
                " torch.compile(fullgraph=True) shows what breaks them, and what it compiles is"
                " guarded as before"
            )
        if not all(graph.is_cpp for graph in self.graphs):
            found.append(
                'a program is not in C++: with options={"emitter": "cpp"} the same lines call the'
                " same kernels and library ops, and give the same bits"
            )
        if self.dynamo_us > self.total_us / 3:
            found.append(
                f"Dynamo takes a third or more, with {len(self.guards)} guards: wir.jit does"
                " without, and compares in each call what the model can read; where the model is"
                " fixed, wir.capture and wir.export compare arguments alone"
            )
        return tuple(found)

    def to_json(self) -> str:
        """Return all figures, and the advice, as JSON."""
        figures = asdict(replace(self, spans=()))
        del figures["spans"]
        for graph, found in zip(self.graphs, figures["graphs"], strict=True):
            found["lines_us"] = graph.lines_us
        return json.dumps({**figures, "advice": self.advice()}, indent=1)

    def to_trace(self) -> str:
        """Return one call as Chrome's trace events (JSON), which Perfetto shows.

        One thread has the call as it was measured: Dynamo with its guards, what lies between it and
        each program, the programs. Another has what torch's profiler saw of one, which takes
        longer and goes through torch's wrappers: ops, and the lines and allocations of programs
        that were compiled with ``profile=True``.
        """
        return json.dumps(trace_of(self.spans))

    def __str__(self) -> str:
        """Format a table of microseconds and shares."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        def row(us: float, text: str) -> str:
            return f"{us:9.2f} us  {us / self.total_us:6.1%}  {text}"

        yield row(self.total_us, "the whole call")
        yield row(self.dynamo_us, "Dynamo, and Python between graphs")
        yield row(self.guards_us, f"  of which {len(self.guards)} guards")
        rest = max(0.0, self.dynamo_us - self.guards_us)
        yield row(rest, "  and the look-up, and Python of the frame")
        for number, graph in enumerate(self.graphs):
            if graph.around_us is None:
                why = "; ".join(graph.hindrances)
                yield f"{'':22}graph {number}: torch's wrappers: {why} (their time is in Dynamo's)"
            else:
                yield row(graph.around_us, f"graph {number}: from Dynamo to the program")
            if graph.node:
                yield f"{'':22}graph {number}: torch's node of autograd: {graph.node}"
            yield row(graph.program_us, f"graph {number}: the program")
            if graph.checks_us is None or graph.lines_us is None:
                yield f"{'':22}  its checks of arguments cannot be told from its lines"
            else:
                yield row(graph.checks_us, "  of which checks of its arguments")
                yield row(graph.lines_us, "  and its lines")
            for name, (count, us) in sorted(graph.calls.items(), key=lambda item: -item[1][1]):
                yield f"{'':22}  {count} x {name}: {us:.2f} us under a profiler"
        if self.guards:
            yield f"guards, one at a time ({len(self.guards)}):"
        for guard in self.guards[:_SHOWN]:
            yield f"{guard.us:9.3f} us          {guard.text[:100]}"
        for text in self.advice():
            yield f"cheaper: {text}"


def explain_call(
    compiled: Callable[..., Any], *args: Any, seconds: float = 0.2, **kwargs: Any
) -> CallReport:
    """Measure where the time of a call goes.

    The call is made many times, so it should change nothing that matters. Only the way forward is
    measured.

    Args:
        compiled: What ``torch.compile(..., backend="wrapper_ir")`` returned.
        *args: Its arguments.
        seconds: How long to measure each part.
        **kwargs: Its keyword arguments.

    Raises:
        NothingCalledError: The call ran no graph that we compiled.
    """

    def call() -> None:
        compiled(*args, **kwargs)

    for _ in range(3):
        call()
    total = median_us(call, seconds)
    rounds, clocked = watched(call, max(10, int(seconds * 1e6 / total)))
    shape = rounds[0].graphs
    if not shape:
        raise NothingCalledError(what=getattr(compiled, "__name__", type(compiled).__name__))
    spans = zip(*(each.spans for each in rounds), strict=True)
    with_checks = zip(*(each.spans for each in clocked), strict=True)
    graphs = tuple(
        _time_of([*each], [span.checks for span in others], calls)
        for each, others, calls in zip(
            spans, with_checks, calls_inside(call, len(shape)), strict=True
        )
    )
    inside = sum((graph.around_us or 0) + graph.program_us for graph in graphs)
    frames = _frames(call, {graph.frame for graph in shape if graph.frame})
    guards = tuple(sorted(_guards(frames), key=attrgetter("us"), reverse=True))
    guards_us = sum(_us_of(entry.guard_manager.root.check, seen) for seen, entry in frames)
    return CallReport(
        total_us=total,
        dynamo_us=max(0.0, total - inside),
        graphs=graphs,
        guards_us=guards_us,
        guards=guards,
        spans=(*_spans(rounds[len(rounds) // 2], graphs, guards, guards_us), *profiled(call)),
    )


def _spans(
    usual: Round, graphs: tuple[GraphTime, ...], guards: tuple[Guard, ...], guards_us: float
) -> Iterator[Span]:
    parts = [
        Part(
            each.start or None,
            each.end,
            (each.program, each.program + each.inner),
            None if graph.checks_us is None else int(graph.checks_us * 1e3),
        )
        for each, graph in zip(usual.spans, graphs, strict=True)
    ]
    words = [(each.text, each.us) for each in guards]
    yield from measured(usual.start, usual.end, parts, words, guards_us)


def _time_of(
    spans: list[GraphSpan], checks: list[int | None], calls: dict[str, tuple[int, float]]
) -> GraphTime:
    known = [each for each in checks if each is not None]
    graph = spans[0].graph
    inner = statistics.median(span.inner for span in spans) / 1e3
    outer = statistics.median(max(0, span.outer - span.inner) for span in spans) / 1e3
    return GraphTime(
        around_us=None if graph.hindrances else outer,
        program_us=inner,
        checks_us=min(inner, statistics.median(known) / 1e3) if known else None,
        calls=calls,
        hindrances=graph.hindrances,
        node="" if graph.apply is None else torchs_node(graph.apply),
        is_cpp=is_library(graph.compiled.current_callable),
    )


#: The locals of a frame that Dynamo has compiled, and the version that fits them.
_Frame = tuple[dict[str, Any], Any]


def _frames(call: Callable[[], object], codes: set[CodeType]) -> list[_Frame]:
    """Return the compiled frames of a call, as their guards see them."""
    entries = {entry.code: entry for code in codes for entry in cache_entries(code)}
    found: list[_Frame] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in entries:
            found.append((dict(frame.f_locals), entries[frame.f_code]))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def _guards(frames: list[_Frame]) -> Iterator[Guard]:
    """Time each guard of frames on its own."""
    base = _us_of(bool, None)
    for variables, entry in frames:
        scope = {"L": variables, "G": entry.guard_manager.global_scope or {}}
        for manager in _managers(entry.guard_manager.root):
            source = manager.get_source()  # an expression; Dynamo evaluates the same
            try:
                value = variables if source == "L" else eval(source, scope)
            except Exception:  # a key that cannot be spelt: its guards are in the sum alone
                continue
            for leaf in manager.get_leaf_guards():
                if not callable(leaf):  # it compares several values at once
                    continue
                parts = (part.split("  #")[0].strip() for part in leaf.verbose_code_parts())
                words = " and ".join(parts)
                yield Guard(max(0.0, _us_of(leaf, value) - base), words)


def _managers(manager: Any) -> Iterator[Any]:
    yield manager
    for child in manager.get_child_managers():
        yield from _managers(child)


def _us_of(function: Callable[[Any], object], value: object, count: int = 100) -> float:
    """Return microseconds of a call, the least of some batches."""
    best = float("inf")
    for _ in range(5):
        start = _clock()
        for _ in range(count):
            function(value)
        best = min(best, (_clock() - start) / 1e3 / count)
    return best
