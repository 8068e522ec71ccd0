"""Bisection: find the first call whose outputs differ between two runs."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wrapper_ir.debugging.against_graph import Unlike, compare_with_graph, module_of
from wrapper_ir.debugging.extract import extract, planned
from wrapper_ir.debugging.runs import Saved, place_of, runnable, saved_run
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.passes.probed import Call, calls_of
from wrapper_ir.runtime.probes import difference

if TYPE_CHECKING:
    from wrapper_ir.debugging.against_graph import Graph
    from wrapper_ir.lines.program import Program


class DifferentCallsError(WrapperIRError):
    """Two compared programs do not make the same calls. Field: ``place``."""

    code = "WIR1513"
    template = "the two programs do not make the same calls: {place}"
    default_hint = "compare two versions of one program, or one program with two emitters"


Tolerance: TypeAlias = tuple[float, float]
"""A relative and an absolute tolerance."""

#: The name that selects eager execution of the graph in place of an emitter.
EAGER: Final = "eager"

#: Relative and absolute tolerance of a reproducer that expects eager results.
_CLOSE: Final = (1e-4, 1e-5)


@dataclass(frozen=True)
class BisectResult:
    """The result of comparing two runs.

    Attributes:
        call: The first call whose output differs, or None.
        buffer: The buffer that differs, or an empty string.
        words: A description of the difference.
        compared: The number of compared tensors: those up to the difference, or all of them if the
            other run was eager.
        folder: The reproducer, if one was requested.
        skipped: The numbers of tensors that could not be compared with eager execution, by reason.
        source: The call's source line and module in the model; empty if unknown.
    """

    call: Call | None
    buffer: str
    words: str
    compared: int
    folder: Path | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    source: str = ""

    def __bool__(self) -> bool:
        """Return True if a difference was found."""
        return self.call is not None

    def __str__(self) -> str:
        if self.call is None:
            text = f"no difference in {self.compared} tensors"
        else:
            place = f"{self.call.label} ({self.call.path})"
            text = f"{place} wrote a different {self.buffer}: {self.words}"
            text += f"; from {self.source}" if self.source else ""
        if self.skipped:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())
            text += f"; not compared: {reasons}"
        return text


def bisect(  # noqa: PLR0913 - two runs, four arguments
    program: Program,
    inputs: Sequence[Any],
    a: str = "python",
    b: str = "python",
    *,
    other: Program | None = None,
    graph: Graph | None = None,
    tolerance: Tolerance | None = None,
    folder: str | Path | None = None,
) -> BisectResult:
    """Run a program with two emitters, or two versions of it, and find the first call that differs.

    Both runs save the outputs of every call to disk. The outputs are compared in the order of the
    first run. New memory is filled with a number in one run and with NaN in the other, so that a
    call that reads uninitialized memory also differs, even between two runs of the same emitter.

    With ``b="eager"``, the second run is eager execution of the program's source graph. It compares
    the buffers that hold the value of one graph node; the result counts those that do not.

    Args:
        program: The program that ``a`` runs.
        inputs: Its inputs. Each run gets copies of its own.
        a: An emitter that renders probes, or ``interpreter``, the reference interpreter.
        b: Another such emitter, ``interpreter``, or ``eager``.
        other: The program that ``b`` runs instead, such as the same program with another kernel
            source.
        graph: The program's source graph, for ``eager``.
        tolerance: Relative and absolute. By default, results of emitters must be equal, and eager
            results may differ by rounding.
        folder: A new folder to write a reproducer of the call to: a program of this call alone, its
            inputs, a test, and the expected outputs, which come from ``a`` or from eager execution.

    Raises:
        DifferentCallsError: The programs do not make the same calls.
        NoOriginsError: The program does not record which nodes its buffers correspond to.
        OtherGraphError: The program was not captured from this graph.
        OptionValueError: ``graph`` is not a graph, or it is given without ``eager``.
        FileExistsError: The folder exists.
    """
    if b == EAGER and folder is not None and Path(folder).exists():
        raise FileExistsError(f"{folder} exists")
    if b == EAGER:
        return _with_eager(runnable(program, a), inputs, a, graph, tolerance, folder)
    if graph is not None:
        expected = f"None, unless b={EAGER!r}"
        raise OptionValueError(option="graph", value=type(graph).__name__, expected=expected)
    one, two = planned(program), planned(program if other is None else other)
    return _with_emitters((one, a), (two, b), inputs, tolerance or (0.0, 0.0), folder)


def _with_emitters(
    first: tuple[Program, str],
    second: tuple[Program, str],
    inputs: Sequence[Any],
    tolerance: Tolerance,
    folder: str | Path | None,
) -> BisectResult:
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-bisect-") as root:
        one = saved_run(*first, inputs, Path(root) / "a", 1e4)
        two = saved_run(*second, inputs, Path(root) / "b")
        result = _compare(first[0], one.saved, two.saved, tolerance)
    if result.call is None or folder is None:
        return result
    written = extract(first[0], result.call.number, inputs, target=first[1]).write(folder)
    return dataclasses.replace(result, folder=written)


def _compare(program: Program, one: Saved, two: Saved, tolerance: Tolerance) -> BisectResult:
    calls = {call.label: call for call in calls_of(program)}
    compared = 0
    for position, entry in enumerate(one.entries):
        place = f"{entry['call']} {entry['buffer']}"
        if position >= len(two.entries) or place_of(two.entries[position]) != place_of(entry):
            raise DifferentCallsError(place=place)
        words = difference(two.load(position), one.load(position), tolerance)
        compared += 1
        if words:
            call = calls[entry["call"]]
            source = program.source_of(call.line)
            return BisectResult(call, entry["buffer"], words, compared, source=source)
    return BisectResult(None, "", "", compared)


def _with_eager(
    program: Program,
    inputs: Sequence[Any],
    target: str,
    graph: Graph | None,
    tolerance: Tolerance | None,
    folder: str | Path | None,
) -> BisectResult:
    module_of(graph)
    assert graph is not None  # module_of rejects None
    found = compare_with_graph(program, inputs, graph, target, tolerance)
    result = BisectResult(None, "", "", found.compared, skipped=found.skipped)
    first = next((each for each in found.differences if each.call is not None), None)
    if first is None or first.call is None:
        return result
    change = functools.partial(dataclasses.replace, result, call=first.call, buffer=first.buffer)
    outcome = change(words=first.words, source=program.source_of(first.call.line))
    if folder is None:
        return outcome
    written = _reproducer(program, outcome, first, inputs, target, folder, tolerance or _CLOSE)
    return dataclasses.replace(outcome, folder=written)


def _reproducer(  # noqa: PLR0913 - the result, its run and the destination
    program: Program,
    found: BisectResult,
    first: Unlike,
    inputs: Sequence[Any],
    target: str,
    folder: str | Path,
    tolerance: Tolerance,
) -> Path:
    """Write the extracted call with the eager result as its expected output."""
    assert found.call is not None
    alone = extract(program, found.call.number, inputs, target=target)
    names = [result.buffer for result in alone.program.results if hasattr(result, "buffer")]
    shown = [program.qualified_names.get(name, name) for name in names]
    pairs = zip(shown, alone.expected, strict=True)
    expected = tuple(first.expected if n == found.buffer else tensor for n, tensor in pairs)
    return dataclasses.replace(alone, expected=expected).write(folder, tolerance)
