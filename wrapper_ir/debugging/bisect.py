"""Bisection: find the first call whose outputs differ between two runs."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec
from torch.fx import GraphModule, Node

from wrapper_ir.api import compile as compile_program
from wrapper_ir.debugging.eager import Beside, Difference, OtherGraphError, Saved
from wrapper_ir.debugging.extract import copies, extract, planned, with_own_state
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.interpreter import folded_values
from wrapper_ir.lines.effects import effects
from wrapper_ir.passes.printer import DebugPrinter
from wrapper_ir.passes.probed import Call, calls_of
from wrapper_ir.passes.probes import insert_probes, poison
from wrapper_ir.runtime.probes import debug_session, difference

if TYPE_CHECKING:

    from wrapper_ir.lines.program import Program


class DifferentCallsError(WrapperIRError):
    """Two compared programs do not make the same calls. Field: ``place``."""

    code = "WIR1513"
    template = "the two programs do not make the same calls: {place}"
    default_hint = "compare two versions of one program, or one program with two emitters"


class NoOriginsError(WrapperIRError):
    """A program does not record which graph nodes its buffers correspond to."""

    code = "WIR1517"
    template = "the program does not record which graph nodes its buffers correspond to"
    default_hint = "capture the model again; text has origins only if save() wrote it"


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
        a: An emitter that renders probes.
        b: Another such emitter, or ``eager``.
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
        return _with_eager(planned(program), inputs, a, graph, tolerance, folder)
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
        one = _run(*first, inputs, Path(root) / "a", 1e4)
        two = _run(*second, inputs, Path(root) / "b", math.nan)
        result = _compare(first[0], one, two, tolerance)
    if result.call is None or folder is None:
        return result
    written = extract(first[0], result.call.number, inputs, target=first[1]).write(folder)
    return dataclasses.replace(result, folder=written)


def _run(program: Program, target: str, inputs: Sequence[Any], folder: Path, number: float) -> Path:
    """Run a program with all outputs saved and new memory filled with a number."""
    probed = poison(insert_probes(program, DebugPrinter("save", when="after")), number)
    probed = with_own_state(probed)
    with debug_session(folder, limit=0) as session:
        compile_program(probed, target, debug="off")(*copies(inputs))
        return session.directory


def _compare(program: Program, one: Path, two: Path, tolerance: Tolerance) -> BisectResult:
    calls = {call.label: call for call in calls_of(program)}
    compared = 0
    left, right = _index(one), _index(two)
    for position, entry in enumerate(left):
        place = f"{entry['call']} {entry['buffer']}"
        if position >= len(right) or _place(right[position]) != _place(entry):
            raise DifferentCallsError(place=place)
        got = _load(two / right[position]["file"])
        words = difference(got, _load(one / entry["file"]), tolerance)
        compared += 1
        if words:
            call = calls[entry["call"]]
            source = program.source_of(call.line)
            return BisectResult(call, entry["buffer"], words, compared, source=source)
    return BisectResult(None, "", "", compared)


def _place(entry: dict[str, Any]) -> tuple[str, str, str]:
    """Return a call's number, its buffer and its op; kernel names may differ between versions."""
    number, _, name = entry["call"].partition(" ")
    return number, entry["buffer"], name if "::" in name else ""


def _key(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["call"], entry["buffer"]


def _index(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for line in lines if "file" in (entry := json.loads(line))]


def _load(file: Path) -> torch.Tensor:
    tensor: torch.Tensor = torch.load(file, weights_only=True)
    return tensor


# Eager execution.


def _with_eager(
    program: Program,
    inputs: Sequence[Any],
    target: str,
    graph: Graph | None,
    tolerance: Tolerance | None,
    folder: str | Path | None,
) -> BisectResult:
    module = module_of(graph)
    assert graph is not None  # module_of rejects None
    graph_values = {(call.label, name): value for call, name, value in _graph_values(program)}
    if not graph_values:
        raise NoOriginsError
    own = with_own_state(program)
    arguments = arguments_of(graph, own, inputs)
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-bisect-") as root:
        run = _run(program, target, inputs, Path(root) / "a", math.nan)
        entries = _index(run)
        saved: dict[str, list[Saved]] = {}
        unknown = 0
        for position, entry in enumerate(entries):
            value = graph_values.get(_key(entry))
            if value is None:
                unknown += 1
                continue
            tensor = Saved(position, functools.partial(_load, run / entry["file"]))
            saved.setdefault(value, []).append(tensor)
        beside = Beside(module, saved, constants_of(own), tolerance)
        beside.compare(copies(arguments))
    skipped = {"correspond to no single node": unknown, **beside.skipped}
    skipped = {why: n for why, n in skipped.items() if n}
    result = BisectResult(None, "", "", beside.compared, skipped=skipped)
    if not beside.differences:
        return result
    first = min(beside.differences, key=lambda each: each.position)
    label, buffer = _key(entries[first.position])
    (call,) = (call for call in calls_of(program) if call.label == label)
    change = functools.partial(dataclasses.replace, words=first.words)
    outcome = change(result, call=call, buffer=buffer, source=program.source_of(call.line))
    if folder is None:
        return outcome
    written = _reproducer(program, outcome, first, inputs, target, folder, tolerance or _CLOSE)
    return dataclasses.replace(outcome, folder=written)


def _graph_values(program: Program) -> Iterator[tuple[Call, str, str]]:
    """Yield the calls outside regions with their outputs and the graph values of those outputs.

    In a region, a name may belong to a node of another graph.
    """
    for call in calls_of(program):
        origin = program.origin_of(call.line)
        values = () if origin is None or len(call.path) != 1 else origin.values
        written = effects(call.line, program).written
        if len(values) == len(written):
            for name, value in zip(written, values, strict=True):
                if value:
                    yield call, program.qualified_names.get(name, name), value


def _reproducer(  # noqa: PLR0913 - the result, its run and the destination
    program: Program,
    found: BisectResult,
    first: Difference,
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


# The source graph of a program, and its inputs.

Graph: TypeAlias = GraphModule | ExportedProgram
"""The source graph of a program that Inductor or ``from_fx`` made."""


def module_of(graph: object) -> GraphModule:
    """Return the module whose nodes are run."""
    if isinstance(graph, ExportedProgram):
        module: GraphModule = graph.graph_module
        return module
    if isinstance(graph, GraphModule):
        return graph
    expected = "the program's source graph, such as one of record().graphs"
    raise OptionValueError(option="graph", value=graph, expected=expected)


def constants_of(program: Program) -> dict[str, Any]:
    """Return the values of a program's constants by their qualified names in the model."""
    values = {**folded_values(program), **program.data}
    known = {n: c.qualified_name for n, c in program.constants.items() if n in values}
    return {qualified: values[name] for name, qualified in known.items()}


def arguments_of(graph: Graph, program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Map a program's inputs to the graph's placeholders and return their values, in order."""
    left = list(inputs)
    nodes = list(module_of(graph).graph.find_nodes(op="placeholder"))
    if isinstance(graph, ExportedProgram):
        specs = graph.graph_signature.input_specs
        arguments = [_given(graph, spec, program, left) for spec in specs]
    elif len(nodes) == len(left):
        arguments, left = left, []
    else:
        arguments = [_next(left, _known(node)) for node in nodes]
    if left or len(arguments) != len(nodes):
        reason = f"it takes {len(nodes)} inputs, the program {len(inputs)}"
        raise OtherGraphError(reason=reason)
    return arguments


def _given(graph: ExportedProgram, spec: InputSpec, program: Program, left: list[Any]) -> object:
    if spec.kind is InputKind.USER_INPUT:
        known = spec.arg.value if isinstance(spec.arg, ConstantArgument) else torch.Tensor
        return _next(left, known)
    tensors = {**graph.state_dict, **graph.constants, **constants_of(program)}
    if spec.target not in tensors:
        raise OtherGraphError(reason=f"it needs {spec.target!r}, which is not a constant")
    return tensors[spec.target]


def _known(node: Node) -> object:
    return node.meta.get("val", torch.Tensor)


def _next(left: list[Any], known: object) -> object:
    """Return the next input; None and strings are constants of the graph, not program inputs."""
    if known is None or isinstance(known, str):
        return known
    if not left:
        raise OtherGraphError(reason="it takes more inputs than the program")
    return left.pop(0)
