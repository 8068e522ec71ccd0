"""When the graphs of a call run, their programs inside, and the checks inside these."""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor import straight
from wrapper_ir.frontends.inductor.call_inside import clocked_of, replaced
from wrapper_ir.frontends.inductor.straight import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_clock = time.perf_counter_ns


def median_us(call: Callable[[], object], seconds: float) -> float:
    """Return microseconds a call, the median of batches."""

    def batch(count: int) -> float:
        start = time.thread_time_ns()
        for _ in range(count):
            call()
        return (time.thread_time_ns() - start) / 1e3 / count

    count = max(1, int(seconds * 1e6 / 20 / batch(10)))
    return statistics.median(batch(count) for _ in range(20))


@dataclass
class GraphSpan:
    """One graph's part in a call, in nanoseconds.

    The outer part is 0 where it is not seen, and checks are None.
    """

    graph: Graph
    start: int = 0
    outer: int = 0
    program: int = 0
    inner: int = 0
    checks: int | None = None

    @property
    def end(self) -> int:
        """When it returned, as far as that is seen."""
        return self.start + self.outer if self.start else self.program + self.inner


@dataclass
class Round:
    """One call, in nanoseconds."""

    start: int
    end: int
    spans: list[GraphSpan]

    @property
    def graphs(self) -> list[Graph]:
        """The graphs that ran, in order."""
        return [span.graph for span in self.spans]

    def length(self) -> int:
        """Return its nanoseconds."""
        return self.end - self.start


class Watch:
    """Notes when graphs and their programs run."""

    def __init__(self) -> None:
        self._thread = get_ident()
        self._found: list[GraphSpan] = []
        self._open: GraphSpan | None = None
        self._clocks_checks = False
        start = _clock()
        for _ in range(1000):
            _clock()
        self._cost = (_clock() - start) // 1000  # of reading the clock

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch all graphs that are alive."""
        with replaced(self._noting):
            straight.watchers[self._thread] = self._outer
            try:
                yield
            finally:
                del straight.watchers[self._thread]

    def round_of(self, call: Callable[[], object], *, clocks_checks: bool = False) -> Round:
        """Make one call, and return its parts; reading a clock round checks makes it longer."""
        self._found, self._clocks_checks = [], clocks_checks
        start = _clock()
        call()
        return Round(start, _clock(), self._found)

    def _outer(self, graph: Graph, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        span = self._open = GraphSpan(graph)
        span.start = _clock()
        results = call(*args)
        span.outer = _clock() - span.start
        self._open = None
        return results

    def _noting(self, graph: Graph, function: Callable[..., Any]) -> Callable[..., Any]:
        clocked = clocked_of(function)

        def noting(args: list[Any]) -> Any:
            if get_ident() != self._thread:
                return function(args)
            span = self._open or GraphSpan(graph)
            span.program = _clock()
            if self._clocks_checks and clocked is not None:
                results, span.checks = clocked(args)
            else:
                results = function(args)
            span.inner = max(0, _clock() - span.program - self._cost)
            self._found.append(span)
            return results

        return noting


def watched(call: Callable[[], object], count: int) -> tuple[list[Round], list[Round]]:
    """Make a call often, and return the rounds in which the same graphs ran, by length.

    Those in the second list have a clock round checks, or are the first once more. They are made in
    turn, so that checks and programs are measured at the same times.
    """
    watch = Watch()
    with watch.watching():
        pairs = [
            (watch.round_of(call), watch.round_of(call, clocks_checks=True)) for _ in range(count)
        ]
    shape = pairs[-1][0].graphs
    usual = sorted((each for each, _ in pairs if each.graphs == shape), key=Round.length)
    return usual, [each for _, each in pairs if each.graphs == shape] or usual
