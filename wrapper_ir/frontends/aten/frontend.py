"""``from_fx``: a program of a graph of ATen ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from wrapper_ir.frontends.aten.control import to_value
from wrapper_ir.frontends.aten.emitted import is_emitted, kernels_of
from wrapper_ir.frontends.aten.errors import NotAModelError, UnsupportedGraphError
from wrapper_ir.frontends.aten.graph import constant, convert_node
from wrapper_ir.frontends.aten.inputs import Beginning, guards_of
from wrapper_ir.frontends.aten.sources import (
    PlaceKind,
    Source,
    export_module,
    source_of_export,
    source_of_module,
)
from wrapper_ir.frontends.aten.state import POISON, GraphWalk, Ref, State, UnsupportedNodeError
from wrapper_ir.frontends.common.expressions import bound_of
from wrapper_ir.frontends.common.regions import copied, copy
from wrapper_ir.frontends.common.symbols import free_names, with_symbols_named
from wrapper_ir.lines.args import BufferValue, Value
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.program import (
    Constant,
    FrozenMap,
    Program,
)
from wrapper_ir.lines.walk import walk
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch.fx import Node

    from wrapper_ir.build.draft import ProgramDraft


def from_fx(
    model: ExportedProgram | GraphModule,
    example_inputs: Sequence[Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str = "graph",
) -> Program:
    """Return the program of a graph: each ATen op a call, nothing fused.

    Parameters, buffers and lifted tensors become constants that share memory with the model's; what
    the model writes to its buffers, the program writes to them. Inputs are the leaves of the
    caller's arguments that are tensors or numbers, in order.

    Args:
        model: An exported program, decomposed or not, or a graph module of ATen ops whose nodes
            know their shapes (``meta["val"]``), as ``make_fx`` makes it.
        example_inputs: Arguments of a graph module that is something else, to export it with.
        dynamic_shapes: Which of their dimensions are symbolic, as for ``torch.export.export``.
        name: The program's name.

    Raises:
        NotAModelError: ``model`` is neither.
        NotAnAtenGraphError: A graph module calls something else, and there is nothing to export it
            with.
        ExportError: It cannot be exported.
        UnsupportedGraphError: Nodes have no form in a program; the error lists them all.
        VerificationError: The program breaks a rule of the IR, which is a fault of this front end.
    """
    if isinstance(model, ExportedProgram):
        source = source_of_export(model)
    elif isinstance(model, GraphModule):
        if example_inputs is None:
            source = source_of_module(model)
        else:
            source = source_of_export(export_module(model, example_inputs, dynamic_shapes))
    else:
        raise NotAModelError(kind=type(model).__name__)
    program = _Conversion(source).program(name)
    verify(program)
    return program


def capture(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Program:
    """Return the program of a model: exported, then each ATen op a call.

    Args:
        model: The model, or its export, which is taken as it is.
        args: Example arguments.
        kwargs: Example keyword arguments.
        dynamic_shapes: Which dimensions are symbolic, as for ``torch.export.export``.

    Raises:
        ExportError: The model cannot be exported.
        UnsupportedGraphError: As :func:`from_fx` says.
    """
    if isinstance(model, ExportedProgram):
        return from_fx(model, name="captured")
    return from_fx(export_module(model, args, dynamic_shapes, kwargs), name="captured")


class _Conversion:
    """One graph on its way to a program."""

    def __init__(self, source: Source) -> None:
        self._source = source
        kernels = kernels_of(source.module)
        ranges, hints = _symbols(source)
        if is_emitted(source.module):
            ranges = {}  # its checks say them; torch's own assume that no size is 0 or 1
        self._state = State(ranges=ranges, hints=hints, kernels=kernels)
        self._walk = GraphWalk(self._state, source.module, convert_node)

    def program(self, name: str) -> Program:
        state = self._state
        results: tuple[Value, ...] = ()
        beginning = self._beginning()
        if beginning is not None:
            for line in guards_of(self._source.module, state):
                self._walk.emit(line)
            outputs = self._walk.run(self._given(beginning))
            if not state.problems:
                results = self._results(list(outputs))
        if state.problems or beginning is None:
            raise UnsupportedGraphError(problems=tuple(state.problems))
        program = state.draft.program(name, results)
        program = program.replace(in_spec=self._source.in_spec, out_spec=self._source.out_spec)
        program = with_symbols_named(program, free_names(program, beginning.names))
        return _finished(program, state.draft)

    def _beginning(self) -> Beginning | None:
        try:
            return Beginning(self._state, self._source.places)
        except UnsupportedNodeError as error:
            place = next(iter(self._source.places))
            self._state.report(place.node, str(error))
            return None

    def _given(self, beginning: Beginning) -> list[Any]:
        """Return what each placeholder stands for."""
        values = []
        for place in self._source.places:
            if place.kind is PlaceKind.CONSTANT:
                values.append(self._constant(place.node, place.name, place.value, place.constant))
            else:
                values.append(beginning.values[place.node.name])
        return values

    def _constant(self, node: Node, name: str, tensor: Any, kind: Any) -> Any:
        try:
            return Ref(constant(self._state, name, tensor, kind))
        except UnsupportedNodeError as error:
            if node.users:
                self._state.report(node, str(error))
            return POISON

    # The end.

    def _results(self, outputs: list[Any]) -> tuple[Value, ...]:
        """Copy back what the graph has computed anew, and return what the caller gets."""
        source, state = self._source, self._state
        places = {place.node.name: place.node for place in source.places}
        targets = {n: self._walk.values[places[name]] for n, name in source.copies.items()}
        self._separate(outputs, targets)
        output = next(n for n in source.module.graph.nodes if n.op == "output")
        nodes = list(output.args[0])
        updated: dict[Any, Any] = {}
        for position, target in targets.items():
            value = outputs[position]
            if value != target:
                copy(state.draft, target.name, value.name, state.origin(nodes[position]))
            updated[nodes[position]] = target
        values = [updated.get(nodes[n], outputs[n]) for n in source.results]
        found = []
        for position, value in zip(source.results, values, strict=True):
            try:
                found.append(to_value(value))
            except UnsupportedNodeError as error:
                state.report(output, f"result {position}: {error}")
        return tuple(found)

    def _separate(self, outputs: list[Any], targets: Mapping[int, Ref]) -> None:
        """Copy what an earlier one of the copies to come would change."""
        roots = self._state.draft.roots
        earlier: set[str] = set()
        for position, target in targets.items():
            value = outputs[position]
            if isinstance(value, Ref) and roots(value.name) & earlier and value != target:
                outputs[position] = Ref(copied(self._state.draft, value.name))
            earlier |= roots(target.name)


def _symbols(source: Source) -> tuple[dict[str, tuple[int | None, int | None]], dict[str, int]]:
    """Return ranges and typical values of the symbols that a graph's shapes are made of."""
    ranges, hints = dict(source.ranges), {}
    for node in source.module.graph.nodes:
        for value in _sizes(node.meta.get("val")):
            expr, environment = value.node.expr, value.node.shape_env
            if expr.is_Symbol and expr.name not in hints and environment is not None:
                known = environment.var_to_range.get(expr)
                if known is not None and expr.name not in ranges:
                    ranges[expr.name] = bound_of(known.lower), bound_of(known.upper)
                if value.node.has_hint() and isinstance(value.node.hint, int):
                    hints[expr.name] = int(value.node.hint)
    return ranges, hints


def _sizes(value: Any) -> Iterator[torch.SymInt]:
    parts: Any = value.shape if isinstance(value, torch.Tensor) else value
    if isinstance(parts, torch.SymInt):
        yield parts
    elif isinstance(parts, (list, tuple)):
        for part in parts:
            yield from _sizes(part)


def _finished(program: Program, draft: ProgramDraft) -> Program:
    """Return the program with the constants that it uses, and what is true of each."""
    touched = {v.buffer for v in program.results if isinstance(v, BufferValue)}
    for _, line in walk(program):
        touched.update(effects(line, program).touched)
    names = [name for name in program.constants if name in touched]
    ties = _ties({name: draft.data[name] for name in names})
    constants = {
        name: Constant(
            program.constants[name].qualified_name,
            program.constants[name].kind,
            draft.is_written(name),
            ties.get(name),
        )
        for name in names
    }
    dropped = program.constants.keys() - constants.keys()
    return program.replace(
        constants=FrozenMap(constants),
        buffers=FrozenMap({n: la for n, la in program.buffers.items() if n not in dropped}),
        data={name: draft.data[name].detach() for name in names},
    )


def _ties(data: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return which constants are the same memory as an earlier one."""
    first: dict[Any, str] = {}
    found = {}
    for name, tensor in data.items():
        if tensor.numel():
            owner = first.setdefault((tensor.device, tensor.data_ptr()), name)
            if owner != name:
                found[name] = owner
    return found
