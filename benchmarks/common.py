"""Shared parts of the benchmarks: graphs compiled by Inductor, fair timing, a table.

Convention: both sides are timed in one process and one run, in short batches that alternate
(A B, B A, A B, ...). The reported figure is the median of the ratios *within* a round. A machine
that slows down for a while slows both halves of a round, so the ratio hardly moves. The clock is
the CPU time of the calling thread: the measured code never waits and has no helper threads, and
time taken by other processes should not count.
"""

from __future__ import annotations

import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.table import Table

from tests.models.watch import watch_inductor

if TYPE_CHECKING:
    from torch._inductor.output_code import CompiledFxGraph

__all__ = [
    "OURS",
    "STOCK",
    "Call",
    "CompiledCall",
    "Paired",
    "apart",
    "bare",
    "compile_graph",
    "machine",
    "measure_pair",
    "nothing",
    "show",
    "verdict",
]

STOCK = "inductor"
OURS = "wrapper_ir"

Call = Callable[[], object]


@dataclass
class CompiledCall:
    """A compiled graph, called the way torch calls it.

    Attributes:
        function: ``CompiledFxGraph.current_callable``: takes a list, which it may clear.
        inputs: The flat inputs that torch passed: weights and arguments.
        source: The source text of the module that defines ``function``.
    """

    function: Callable[[list[Any]], Any]
    inputs: list[Any]
    source: str


def compile_graph(
    model: Callable[..., Any],
    args: Sequence[Any],
    backend: str,
    options: Mapping[str, Any] | None = None,
) -> CompiledCall:
    """Compile a model that makes a single graph; return the graph's function and inputs.

    Raises:
        RuntimeError: The model made no graph or several.
    """
    torch._dynamo.reset()
    given = None if options is None else dict(options)
    with watch_inductor() as seen:
        compiled = torch.compile(model, backend=backend, options=given, fullgraph=True)
        compiled(*args)
    if len(seen.graphs) != 1:
        raise RuntimeError(f"{backend} made {len(seen.graphs)} graphs of the model, not one")
    (graph,) = seen.graphs
    function = graph.current_callable
    passed: list[list[Any]] = []

    def noting(inputs: list[Any]) -> object:
        passed.append(list(inputs))
        return function(inputs)

    graph.current_callable = noting
    try:
        compiled(*args)
    finally:
        graph.current_callable = function
    return CompiledCall(function, passed[0], graph.source_code)


def apart(function: Callable[..., Any]) -> FunctionType:
    """Return the same function with a code object of its own: each has one list of guards."""
    assert isinstance(function, FunctionType)
    code = function.__code__.replace()
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def nothing(result: object) -> Callable[..., Any]:
    """Return a backend that computes nothing: every call returns the same."""

    def backend(_: torch.fx.GraphModule, __: list[Any]) -> Callable[..., Any]:
        return lambda *args: (result,)

    return backend


def bare(graph: CompiledFxGraph, call: Call) -> Call:
    """Return the emitted function's call, with the arguments that it gets in ``call``."""
    passed: list[list[Any]] = []
    emitted = graph.current_callable

    def noting(inputs: list[Any]) -> object:
        passed.append(list(inputs))
        return emitted(inputs)

    graph.current_callable = noting
    try:
        call()
    finally:
        graph.current_callable = emitted
    (inputs,) = passed

    def alone() -> object:
        with torch.no_grad():
            return emitted(inputs.copy())

    return alone if torch.is_grad_enabled() else lambda: emitted(inputs.copy())


@dataclass
class Paired:
    """Times of two sides, in seconds per call.

    Attributes:
        first: Median of the first side.
        second: Median of the second side.
        ratio: Median of the second side over the first, round by round.
        quartiles: Quartiles of the same ratios.
    """

    first: float
    second: float
    ratio: float
    quartiles: tuple[float, float]


def measure_pair(
    first: CompiledCall, second: CompiledCall, *, rounds: int, batch_seconds: float
) -> Paired:
    """Time two compiled calls against each other in ``rounds`` alternating batches."""
    sides = (first, second)
    for side in sides:
        _time_batch(side, 20)
    count = max(1, int(batch_seconds / _time_batch(first, 50)))
    times: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                times[side].append(_time_batch(sides[side], count))
    finally:
        gc.enable()
    ratios = [b / a for a, b in zip(*times, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    medians = [statistics.median(values) for values in times]
    return Paired(medians[0], medians[1], statistics.median(ratios), (low, high))


def _time_batch(call: CompiledCall, count: int) -> float:
    """Return seconds per call. Each call gets a fresh list, as under torch."""
    function, inputs = call.function, call.inputs
    start = time.thread_time()
    for _ in range(count):
        function(inputs.copy())
    return (time.thread_time() - start) / count


def verdict(value: float, bound: float | None) -> str:
    """Describe whether a value stays within its bound."""
    if bound is None:
        return "-"
    return "[green]yes[/]" if value <= bound else "[red]NO[/]"


def machine() -> dict[str, Any]:
    """Return a description of the machine for the record."""
    return {
        "cpu": _cpu_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def show(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], record: object, as_json: bool
) -> None:
    """Print a table, or with ``as_json`` print the record."""
    if as_json:
        print(json.dumps(record, indent=2))
        return
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    wide = max(120, Console(width=1000).measure(table).maximum)
    Console(width=None if sys.stdout.isatty() else wide).print(table)
