"""Comparison of a program with its source graph, which runs op by op beside it."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec
from torch.fx import GraphModule, Node

from wrapper_ir.debugging.eager import Beside, OtherGraphError, Saved
from wrapper_ir.debugging.extract import copies, with_own_state
from wrapper_ir.debugging.runs import saved_run
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.graphs.versions import Versions
from wrapper_ir.interpreter import folded_values
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.passes.probed import Call, calls_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wrapper_ir.debugging.runs import SavedRun
    from wrapper_ir.lines.program import Program


class NoOriginsError(WrapperIRError):
    """A program does not record which graph nodes its buffers correspond to."""

    code = "WIR1517"
    template = "the program does not record which graph nodes its buffers correspond to"
    default_hint = "capture the model again; text has origins only if save() wrote it"


@dataclass(frozen=True)
class Unlike:
    """A value that differs from the graph's.

    Attributes:
        call: The call that wrote it; None for a result, or an input afterwards.
        part: The result or input, such as ``results[0]``; empty for a call.
        buffer: The buffer; empty for a result.
        node: The name of the graph's node.
        words: A description of the difference.
        expected: The graph's value.
    """

    call: Call | None
    part: str
    buffer: str
    node: str
    words: str
    expected: torch.Tensor


@dataclass(frozen=True)
class Comparison:
    """What came of running a program beside its graph.

    Attributes:
        differences: What differs, in the order of the calls; then inputs and results.
        compared: The number of compared tensors.
        skipped: The numbers of tensors that could not be compared, by reason.
    """

    differences: tuple[Unlike, ...]
    compared: int
    skipped: Mapping[str, int]


def compare_with_graph(
    program: Program,
    inputs: Sequence[Any],
    graph: Graph,
    target: str,
    tolerance: tuple[float, float] | None = None,
    *,
    ends: bool = False,
) -> Comparison:
    """Run a program, and its graph op by op beside it, and compare what both know.

    Args:
        program: The program; planned, unless it is interpreted.
        inputs: Its inputs. Each run gets copies of its own.
        graph: Its source graph.
        target: An emitter that renders probes, or ``interpreter``.
        tolerance: Relative and absolute; by default it depends on types and ops.
        ends: Whether to compare results, and inputs afterwards, besides what calls write.

    Raises:
        NoOriginsError: The program does not record which nodes its buffers correspond to.
        OtherGraphError: The program was not captured from this graph.
    """
    module = module_of(graph)
    rows = list(_graph_values(program))
    if not rows:
        raise NoOriginsError
    nodes = {(call.label, name): value for call, name, value in rows}
    own = with_own_state(program)
    arguments = arguments_of(graph, own, inputs)
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-compare-") as root:
        run = saved_run(program, target, inputs, Path(root) / "a")
        saved, unknown = _by_node(run, nodes, _last_writes(program, rows, Versions(module.graph)))
        beside = Beside(module, saved, constants_of(own), tolerance)
        places = _places(program, graph, inputs) if ends else []
        afterwards = {name: run.inputs[position] for position, name in places}
        beside.compare(copies(arguments), run.results if ends else (), afterwards)
    skipped = {"correspond to no single node": unknown, **beside.skipped}
    counts = {why: count for why, count in skipped.items() if count}
    differences = tuple(_unlike(program, run, beside, places))
    return Comparison(differences, beside.compared, counts)


def _unlike(
    program: Program, run: SavedRun, beside: Beside, places: Sequence[tuple[int, str]]
) -> Iterator[Unlike]:
    """Yield the differences with the calls and parts of the program, in order."""
    calls = {call.label: call for call in calls_of(program)}
    inputs = {name: position for position, name in places}
    for each in sorted(beside.differences, key=lambda each: each.position):
        said = (each.node, each.words, each.expected)
        if each.position < len(run.saved.entries):
            entry = run.saved.entries[each.position]
            yield Unlike(calls[entry["call"]], "", entry["buffer"], *said)
        elif each.part:
            yield Unlike(None, each.part, "", *said)
        else:
            yield Unlike(None, f"inputs[{inputs[each.node]}]", "", *said)


def _last_writes(
    program: Program, rows: Iterable[tuple[Call, str, str]], versions: Versions
) -> dict[tuple[str, str], str]:
    """Return by call and buffer the last node of the call's that writes to the value in place."""
    last = {}
    for call, buffer, value in rows:
        node = versions.nodes.get(value.partition("[")[0])
        root = versions.root(node)
        if node is None or root is None or root in versions.unknown:
            continue
        origin = program.origin_of(call.line)
        own = set() if origin is None else set(origin.nodes)
        writers = versions.writers.get(root, ())[versions.after(node, root) :]
        for each in writers:
            if each.name in own:
                last[call.label, buffer] = each.name
    return last


def _by_node(
    run: SavedRun,
    nodes: Mapping[tuple[str, str], str],
    last: Mapping[tuple[str, str], str],
) -> tuple[dict[str, list[Saved]], int]:
    """Return the saved tensors by the graph value that they hold, and how many hold none."""
    saved: dict[str, list[Saved]] = {}
    unknown = 0
    for position, entry in enumerate(run.saved.entries):
        key = entry["call"], entry["buffer"]
        value = nodes.get(key)
        if value is None:
            unknown += 1
            continue
        load = functools.partial(run.saved.load, position)
        tensor = Saved(position, load, last.get(key, ""))
        saved.setdefault(value, []).append(tensor)
    return saved, unknown


def _places(program: Program, graph: Graph, inputs: Sequence[Any]) -> list[tuple[int, str]]:
    """Return the positions of tensors among the inputs, with the names of their placeholders.

    There are none where some of the graph's inputs bypass the program, or inputs are donated.
    """
    nodes = module_of(graph).graph.find_nodes(op="placeholder")
    if isinstance(graph, ExportedProgram) or len(nodes) != len(inputs):
        return []
    pairs = zip(program.inputs, nodes, strict=True)
    return [
        (position, node.name)
        for position, (item, node) in enumerate(pairs)
        if isinstance(item, BufferInput) and not item.donated
    ]


def _graph_values(program: Program) -> Iterator[tuple[Call, str, str]]:
    """Yield the calls outside regions with their outputs and the graph values of those outputs.

    In a region, a name may belong to a node of another graph.
    """
    for call in calls_of(program):
        origin = program.origin_of(call.line)
        if origin is None or len(call.path) != 1:
            continue
        values = origin.values
        written = effects(call.line, program).written
        if len(values) == len(written):
            for name, value in zip(written, values, strict=True):
                if value:
                    yield call, program.qualified_names.get(name, name), value


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
