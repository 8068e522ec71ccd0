"""The results of the demo as data and as tables, and the timing of functions."""

from __future__ import annotations

import collections
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wrapper_ir.cli.terminal import duration, human
from wrapper_ir.lines import Program, TorchOp, walk
from wrapper_ir.lines.traits import declares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console
    from rich.table import Table

    from wrapper_ir.planning import PlanReport


#: The compared implementations, in the order of the columns.
EAGER, STOCK, OURS = "eager", "inductor", "wrapper_ir"

#: The pairs whose differences are shown.
PAIRED = ((OURS, EAGER), (STOCK, EAGER), (OURS, STOCK))


@dataclass(frozen=True)
class ProgramFacts:
    """The counts of one planned program."""

    lines: dict[str, int]
    kernels: int
    ops: int
    buffers: int
    total_bytes: int
    peak_bytes: int


@dataclass
class Report:
    """All results of the demo."""

    model: str
    programs: dict[str, ProgramFacts] = field(default_factory=dict)
    #: Part -> compared pair -> largest absolute difference.
    differences: dict[str, dict[str, float]] = field(default_factory=dict)
    #: Measurement -> implementation -> time.
    times: dict[str, dict[str, Time]] = field(default_factory=dict)
    threads: int = 0
    files: list[str] = field(default_factory=list)


def count(program: Program, plan: PlanReport) -> ProgramFacts:
    """Count a planned program's lines by kind, including regions, its kernels and buffers."""
    lines = collections.Counter(type(line).__name__ for _, line in walk(program))
    definitions = [line for line in program.body if declares(line)]
    ops = sum(isinstance(line.source, TorchOp) for line in definitions)
    return ProgramFacts(
        lines=dict(lines.most_common()),
        kernels=len(definitions) - ops,
        ops=ops,
        buffers=len(program.buffers),
        total_bytes=plan.total_bytes,
        peak_bytes=plan.peak_bytes,
    )


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    for table in (_programs(report), _differences(report), _times(report)):
        # Print the title separately: rich would wrap it to the width of the table.
        title, table.title = table.title, None
        console.print(f"\n{title}", style="bold", soft_wrap=True)
        console.print(table)


def _programs(report: Report) -> Table:
    table = _table(f"Wrapper programs of a {report.model}", "", *report.programs)
    facts = list(report.programs.values())
    kinds = collections.Counter[str]()
    for each in facts:
        kinds.update(each.lines)
    table.add_row("lines", *(f"{sum(each.lines.values()):,}" for each in facts), style="bold")
    for kind, _ in kinds.most_common():
        table.add_row(f"  {kind}", *(f"{each.lines.get(kind, 0):,}" for each in facts))
    table.add_section()
    table.add_row("kernels, distinct", *(f"{each.kernels:,}" for each in facts))
    table.add_row("library ops, distinct", *(f"{each.ops:,}" for each in facts))
    table.add_row("buffers", *(f"{each.buffers:,}" for each in facts))
    table.add_row("bytes of all buffers", *(human(each.total_bytes) for each in facts))
    table.add_row("bytes planned (peak)", *(human(each.peak_bytes) for each in facts))
    return table


def _differences(report: Report) -> Table:
    pairs = list(dict.fromkeys(pair for row in report.differences.values() for pair in row))
    table = _table("Largest absolute difference, float32", "", *pairs)
    for part, row in report.differences.items():
        table.add_row(part, *(_difference(row.get(pair)) for pair in pairs))
    return table


def _times(report: Report) -> Table:
    who = list(dict.fromkeys(name for row in report.times.values() for name in row))
    title = (
        "Median time of interleaved calls, +- half the interquartile range; threads:"
        f" {report.threads}"
    )
    table = _table(title, "", "calls", *who)
    for what, row in report.times.items():
        calls = str(max(time.calls for time in row.values()))
        table.add_row(what, calls, *(_time(row.get(name)) for name in who))
    return table


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def _time(time: Time | None) -> str:
    return "—" if time is None else f"{duration(time.median)} +- {time.spread / time.median:.0%}"


def _difference(value: float | None) -> str:
    if value is None:
        return "—"
    return "0" if value == 0 else f"{value:.1e}"


def farewell(report: Report, console: Console) -> None:
    """Explain the numbers and suggest commands for the files."""
    program, module = report.files
    console.print(
        "Times are of whole calls as a user makes them, including Dynamo's guards; wrapper_ir and"
        " stock Inductor run the same kernels. The training step is forward, loss and backward.\n"
        "Bytes planned are those of the program's own buffers, without weights, inputs and the"
        " internal buffers of library ops.",
        style="dim",
    )
    console.print(
        f"\nWritten: {program} and {module}, each with its constants beside it. Next, try",
        markup=False,
        soft_wrap=True,
    )
    for command in (
        f"wrapper-ir print {program} --brief",
        f"wrapper-ir plan {program}",
        f"wrapper-ir emit {program} --target python",
        f"wrapper-ir run {program} --random 0",
        f"python {module}",
    ):
        console.print(f"  {command}", markup=False, style="bold", soft_wrap=True)


# Timing several functions in one run, so that noise on the machine affects all of them alike.


#: The fewest rounds that give meaningful quartiles.
_LEAST = 3


class Time(NamedTuple):
    """The median and half the interquartile range, in seconds, of a number of calls."""

    median: float
    spread: float
    calls: int


def interleaved_medians(
    functions: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    seconds: float = 20.0,
    warmup: int = 3,
) -> dict[str, Time]:
    """Return the median time of one call of each function.

    Each round calls every function once, starting with a different one than the round before, so
    that neither other load on the machine nor the contents of CPU caches favours any of them.

    Args:
        functions: The functions to measure, by name.
        rounds: The maximum number of timed calls of each.
        seconds: Time after which no further round starts; there are at least three.
        warmup: The number of untimed calls of each beforehand.
    """
    names = list(functions)
    for _ in range(warmup):
        for name in names:
            functions[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    for turn in range(rounds):
        if turn >= _LEAST and time.perf_counter() > end:
            break
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            function = functions[name]
            begin = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - begin)
    return {name: _quartiles(each) for name, each in times.items()}


def _quartiles(seconds: list[float]) -> Time:
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Time(middle, (high - low) / 2, len(seconds))
