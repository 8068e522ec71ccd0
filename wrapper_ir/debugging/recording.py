"""Recording a run: how long each call takes, the bytes that it reads and writes, and their values.

A record is rows of JSON. The first says what was run; then each call has a row with its time, and
each tensor that it read or wrote the row that the debug printer's level ``stats`` writes.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir import outputs
from wrapper_ir.api import compile as compile_program
from wrapper_ir.debugging.extract import copies, planned, with_own_state
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines.fields import as_program
from wrapper_ir.outputs import Kind, begins_with
from wrapper_ir.passes.printer import DebugPrinter
from wrapper_ir.runtime.probes import ProbeEvent, debug_session

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wrapper_ir.lines.program import Program

RECORD: Final = Kind("a record of a run", begins_with(b'{"format": "wrapper_ir.run"'))

#: Runs that are not timed: the first ones find nothing in caches.
_WARM: Final = 3


@dataclass(frozen=True, slots=True)
class CallTime:
    """What one call took: medians of the runs that make it, which may be some of all.

    Attributes:
        call: Its number and what it calls, as in ``0003 cpp_fused_relu_0``.
        seconds: Of a call in a loop, all its visits together.
        least: The least of the runs, instead of the median.
        visits: How often a run makes the call.
        read_bytes: Bytes of the tensors that it reads, in a run.
        written_bytes: Bytes of those that it writes.
    """

    call: str
    seconds: float
    least: float
    visits: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run, which ``wir.explore(program, found=[run])`` shows.

    Attributes:
        program: The program's name.
        target: The emitter.
        runs: How many runs were timed.
        seconds: The median of whole calls of the program, without probes.
        calls: The time of each call that was made, in the order of the program's text.
        values: Statistics of each tensor that a call read or wrote, as ``stats.jsonl`` has them.
    """

    program: str
    target: str
    runs: int
    seconds: float
    calls: tuple[CallTime, ...]
    values: tuple[dict[str, Any], ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the record."""
        about = {"program": self.program, "target": self.target, "runs": self.runs}
        head = {"format": "wrapper_ir.run", "version": 1, **about, "seconds": self.seconds}
        return [head, *map(asdict, self.calls), *self.values]

    def text(self) -> str:
        """Return the record as lines of JSON."""
        return "".join(f"{json.dumps(row)}\n" for row in self.rows())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record as lines of JSON, whole or not at all, and return its path."""
        with outputs.replacing(Path(path), RECORD) as temporary:
            temporary.write_text(self.text(), encoding="utf-8", newline="\n")
        return Path(path)


def record_run(
    program: Program,
    inputs: Sequence[Any],
    target: str = "python",
    *,
    runs: int = 20,
    **options: object,
) -> RecordedRun:
    """Run a program, and record the time, the bytes and the values of each call.

    Each run gets copies of its own of inputs and of constants that change. A call is timed from the
    probe before it to the one after it, which adds a microsecond or so; calls on other devices than
    the CPU are waited for, so they do not overlap.

    Args:
        program: The program.
        inputs: Its inputs.
        target: An emitter that renders probes.
        runs: How many runs are timed, after three that are not.
        **options: Options of the emitter.

    Raises:
        OptionValueError: There is no run to time.
    """
    if runs < 1:
        raise OptionValueError(option="runs", value=runs, expected="a number of runs, at least 1")
    ready = planned(as_program(program, "record_run"))

    def compiled(debug: str | DebugPrinter) -> Callable[..., Sequence[Any]]:
        return compile_program(with_own_state(ready), target, debug=debug, **options)

    with tempfile.TemporaryDirectory() as folder, debug_session(folder, limit=0) as session:
        compiled("stats")(*copies(inputs))
        file = session.directory / "stats.jsonl"
        rows = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    clock, whole = _Clock(), []
    plain, probed = compiled("off"), compiled(DebugPrinter("hook", hook=clock))
    timed = []
    for number in range(_WARM + runs):
        seconds = _whole(plain, copies(inputs))
        clock.begin()
        probed(*copies(inputs))
        if number >= _WARM:
            whole.append(seconds)
            timed.append(clock.visits)
    calls = tuple(_time_of(call, of_it) for call, of_it in _by_call(timed))
    values = tuple(json.loads(row) for row in rows)
    return RecordedRun(ready.name, target, runs, statistics.median(whole), calls, values)


def _whole(function: Callable[..., Sequence[Any]], inputs: Sequence[Any]) -> float:
    """Return the seconds of a whole call."""
    _wait(inputs)
    start = time.perf_counter_ns()
    _wait(function(*inputs))
    return (time.perf_counter_ns() - start) / 1e9


@dataclass(slots=True)
class _Visits:
    """A call in one run: nanoseconds of each visit, and the bytes that all of them move."""

    spans: list[int] = field(default_factory=list)
    read_bytes: int = 0
    written_bytes: int = 0


def _by_call(runs: Iterable[Mapping[str, _Visits]]) -> list[tuple[str, list[_Visits]]]:
    """Return each call with the runs that make it: which branch is taken may be drawn."""
    found: dict[str, list[_Visits]] = {}
    for run in runs:
        for call, visits in run.items():
            if visits.spans:
                found.setdefault(call, []).append(visits)
    return sorted(found.items(), key=lambda item: item[0])


def _time_of(call: str, runs: list[_Visits]) -> CallTime:
    spans = [sum(run.spans) / 1e9 for run in runs]
    visits, read, written = (
        statistics.median_low(counts)
        for counts in zip(
            *((len(run.spans), run.read_bytes, run.written_bytes) for run in runs), strict=True
        )
    )
    return CallTime(call, statistics.median(spans), min(spans), visits, read, written)


class _Clock:
    """A hook that notes how long each call takes, and how much it reads and writes."""

    def __init__(self) -> None:
        self.begin()
        self._call, self._start = "", 0

    def begin(self) -> None:
        """Begin a new run."""
        #: By the call.
        self.visits: dict[str, _Visits] = {}

    def __call__(self, event: ProbeEvent) -> None:
        """Note the moment before or after a call."""
        _wait(event.tensors.values())
        now = time.perf_counter_ns()
        noted = self.visits.setdefault(event.call, _Visits())
        size = sum(each.numel() * each.element_size() for each in event.tensors.values())
        if event.when == "after":
            noted.written_bytes += size
            if event.call == self._call:
                noted.spans.append(now - self._start)
            self._call = ""
        else:
            noted.read_bytes += size
            self._call, self._start = event.call, time.perf_counter_ns()


def _wait(values: Iterable[object]) -> None:
    """Wait for what runs on other devices than the CPU."""
    devices = {each.device for each in values if isinstance(each, torch.Tensor)}
    for device in devices:
        if device.type not in ("cpu", "meta"):
            torch.get_device_module(device).synchronize(device)
