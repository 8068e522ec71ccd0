"""``from_fx``: conversion of a graph of ATen ops to a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy
import torch
from sympy.core.relational import Relational
from torch.export import ExportedProgram
from torch.fx import GraphModule

from wrapper_ir.build.draft import Equation, ProgramDraft, bind_given, metadata_of, range_checks
from wrapper_ir.frontends.aten import sources
from wrapper_ir.frontends.aten import state as aten
from wrapper_ir.frontends.aten.control import to_value
from wrapper_ir.frontends.aten.graph import constant, convert_node
from wrapper_ir.frontends.aten.numbers import kind_of
from wrapper_ir.frontends.common.exported import Range, tied, with_apart_inputs, with_other_names
from wrapper_ir.frontends.common.expressions import bound_of, is_about_layout
from wrapper_ir.frontends.common.ops import SYMBOLIC
from wrapper_ir.frontends.common.regions import copied, copy
from wrapper_ir.frontends.common.symbols import free_names, with_symbols_named
from wrapper_ir.lines.args import BufferValue, Value
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import UnsupportedExprError, free_symbols
from wrapper_ir.lines.program import ConstantKind, FrozenMap, Program, SymbolKind
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, ComputeSymbol
from wrapper_ir.lines.walk import walk
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def from_fx(
    model: ExportedProgram | GraphModule,
    example_inputs: Sequence[Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str = "graph",
) -> Program:
    """Convert a graph to a program in which each ATen op is a call and nothing is fused.

    Parameters, buffers and lifted tensors become constants that share memory with the model's
    tensors, so the program updates the model's buffers as the model does. The inputs are the leaves
    of the caller's arguments that are tensors or numbers, in order.

    Args:
        model: An exported program, decomposed or not, or a graph module of ATen ops whose nodes
            have fake values (``meta["val"]``), such as ``make_fx`` returns.
        example_inputs: Arguments to export a graph module of another kind with.
        dynamic_shapes: Their symbolic dimensions, as for ``torch.export.export``.
        name: The program's name.

    Raises:
        NotAModelError: ``model`` has another type.
        NotAnAtenGraphError: A graph module is not a graph of ATen ops, and there are no
            ``example_inputs``.
        ExportError: It cannot be exported.
        UnsupportedGraphError: Nodes have no equivalent in a program. The error lists them all.
        VerificationError: The program breaks a rule of the IR, which is a bug of this front end.
    """
    if isinstance(model, ExportedProgram):
        source = sources.source_of_export(model)
    elif isinstance(model, GraphModule):
        if example_inputs is None:
            source = sources.source_of_module(model)
        else:
            exported = sources.export_module(model, example_inputs, dynamic_shapes)
            source = sources.source_of_export(exported)
    else:
        raise aten.NotAModelError(kind=type(model).__name__)
    program = _Conversion(source).program(name)
    if source.copies:  # the graph is functional
        program = with_apart_inputs(program)
    verify(program)
    return program


def capture(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> Program:
    """Export a model and convert it to a program in which each ATen op is a call.

    Args:
        model: The model, or its export.
        args: Example arguments.
        kwargs: Example keyword arguments.
        dynamic_shapes: The symbolic dimensions, as for ``torch.export.export``.

    Raises:
        ExportError: The model cannot be exported.
        UnsupportedGraphError: As for :func:`from_fx`.
    """
    if isinstance(model, ExportedProgram):
        return from_fx(model, name="captured")
    return from_fx(sources.export_module(model, args, dynamic_shapes, kwargs), name="captured")


class _Conversion:
    """The conversion of one graph to a program."""

    def __init__(self, source: sources.Source) -> None:
        self._source = source
        kind = sources.PlaceKind.CONSTANT
        self._constants = [place for place in source.places if place.kind is kind]
        #: The model's names for torch's symbols that are arguments.
        self._names: dict[str, str] = {}
        #: Sizes and strides with their sources, to be bound once all inputs are defined.
        self._equations: list[Equation] = []
        #: Checks of numbers that sizes determine.
        self._late: list[AssertSymbol] = []
        ranges, hints = _symbols(source)
        self._state = aten.State(ranges=ranges, hints=hints)
        self._draft = self._state.draft
        self._walk = aten.GraphWalk(self._state, source.module, convert_node)

    def program(self, name: str) -> Program:
        state = self._state
        results: tuple[Value, ...] = ()
        outputs = self._walk.run(self._given())
        if not state.problems:
            results = self._results(list(outputs))
        if state.problems:
            raise aten.UnsupportedGraphError(problems=tuple(state.problems))
        program = state.draft.program(name, results)
        program = program.replace(in_spec=self._source.in_spec, out_spec=self._source.out_spec)
        program = with_symbols_named(program, free_names(program, self._names))
        program = _finished(program, state.draft)
        return with_other_names(program, *self._tensors())

    # The beginning: inputs, the symbols that their shapes bind, and checks.

    def _given(self) -> list[Any]:
        """Return the value of each placeholder, after the lines that precede those of the nodes."""
        state, places = self._state, self._source.places
        inputs = (place for place in places if place.kind is not sources.PlaceKind.CONSTANT)
        values = {place.node: self._value(place) for place in inputs}
        self._bind()
        for item in state.draft.inputs:
            if isinstance(item, BufferInput):
                self._walk.emit(AssertLayout(item.name))
        for line in guards_of(self._source.module, state):
            self._walk.emit(line)
        values |= {place.node: self._value(place) for place in self._constants}
        return [values[place.node] for place in places]

    def _value(self, place: sources.Place) -> Any:
        """Define an input or a constant, and return its value."""
        known, is_constant = place.node.meta.get("val"), place.kind is sources.PlaceKind.CONSTANT
        try:
            if is_constant:
                return aten.Ref(constant(self._state, place.name, place.value, place.constant))
            if place.kind is sources.PlaceKind.FIXED:
                return self._fixed(place)
            if isinstance(known, torch.Tensor):
                return self._tensor(place, known)
            return self._number(place, known)
        except aten.UnsupportedNodeError as error:
            if place.node.users or not is_constant:
                self._state.report(place.node, str(error))
            return aten.POISON

    def _tensor(self, place: sources.Place, known: torch.Tensor) -> aten.Ref:
        state = self._state
        name = state.define(place.name, known)
        origin = state.origin(place.node)
        self._draft.inputs.append(BufferInput(name))
        metadata = metadata_of(name, state.draft.buffers[name])
        self._equations += [Equation(value, source, origin) for value, source in metadata]
        return aten.Ref(name)

    def _number(self, place: sources.Place, known: Any) -> Any:
        state = self._state
        if isinstance(known, SYMBOLIC):
            kind, expr = kind_of(known), state.scalar(known)
            if isinstance(expr, sympy.Symbol) and expr.name not in state.draft.bound:
                self._draft.inputs.append(ScalarInput(state.bind(expr.name, kind)))
                self._names[expr.name] = place.name
                return expr
            number = self._fresh_input(place, kind)
            check = AssertSymbol(sympy.Eq(number, expr), f"{number} is not {expr}")
            if state.is_bound(expr):
                self._draft.emit(check)
            else:
                self._equations.append(Equation(expr, number.name))
                self._late.append(check)
            return number
        return self._fixed(place)

    def _fixed(self, place: sources.Place) -> Any:
        """Convert an argument with a fixed value. A number is checked, anything else dropped."""
        value = place.value
        if not isinstance(value, (bool, int, float)):
            return value
        kinds = {bool: SymbolKind.BOOL, int: SymbolKind.INT, float: SymbolKind.FLOAT}
        number = self._fresh_input(place, kinds[type(value)])
        message = f"{number} is not {value}, for which the program was made"
        if isinstance(value, bool):
            self._draft.emit(AssertSymbol(number if value else sympy.Not(number), message))
        elif value == value:  # a NaN equals nothing
            self._draft.emit(AssertSymbol(sympy.Eq(number, value), message))
        return value

    def _fresh_input(self, place: sources.Place, kind: SymbolKind) -> sympy.Symbol:
        name = self._state.bind_fresh(place.name, kind)
        self._draft.inputs.append(ScalarInput(name))
        return self._draft.symbol(name)

    def _bind(self) -> None:
        """Bind the symbols that sizes and strides give; check the ranges of those computed."""
        draft = self._draft
        for line in bind_given(draft, self._equations, self._state.bind):
            draft.emit(line)
            if isinstance(line, ComputeSymbol):
                info, number = draft.symbols[line.symbol], draft.symbol(line.symbol)
                limits = info.lower, info.upper
                for check in range_checks(number, *limits, line.symbol, line.origin):
                    draft.emit(check)
        for check in self._late:
            draft.emit(check)

    # The end.

    def _tensors(self) -> tuple[dict[str, Any], dict[str, ConstantKind]]:
        """Return the model's tensors by name, and the kinds of its parameters and buffers."""
        module, constants = self._source.module, self._constants
        parameters = dict(module.named_parameters(remove_duplicate=False))
        buffers = dict(module.named_buffers(remove_duplicate=False))
        values = {place.name: place.value for place in constants} | buffers | parameters
        kinds = {place.name: place.constant for place in constants}
        kinds |= dict.fromkeys(buffers, ConstantKind.BUFFER)
        return values, kinds | dict.fromkeys(parameters, ConstantKind.PARAMETER)

    def _results(self, outputs: list[Any]) -> tuple[Value, ...]:
        """Copy updates back to constants and inputs, and return the caller's results."""
        source, state = self._source, self._state
        places = {place.node.name: place.node for place in source.places}
        targets = {n: self._walk.values[places[name]] for n, name in source.copies.items()}
        self._separate(outputs, targets)
        output: Any = source.module.graph.output_node()
        nodes = list(output.args[0])
        updated: dict[Any, Any] = {}
        for position, target in targets.items():
            value = outputs[position]
            if value != target:
                copy(state.draft, target.name, value.name, state.origin(nodes[position]))
            updated[nodes[position]] = target
        found = []
        for position in source.results:
            try:
                found.append(to_value(updated.get(nodes[position], outputs[position])))
            except aten.UnsupportedNodeError as error:
                state.report(output, f"result {position}: {error}")
        return tuple(found)

    def _separate(self, outputs: list[Any], targets: Mapping[int, aten.Ref]) -> None:
        """Copy each output that an earlier copy-back would overwrite."""
        roots = self._draft.roots
        earlier: set[str] = set()
        for position, target in targets.items():
            value = outputs[position]
            if isinstance(value, aten.Ref) and roots(value.name) & earlier and value != target:
                outputs[position] = aten.Ref(copied(self._draft, value.name))
            earlier |= roots(target.name)


def _symbols(source: sources.Source) -> tuple[dict[str, Range], dict[str, int]]:
    """Return the ranges and hints of the symbols in a graph's shapes."""
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
    """Return the program with its used constants only, each marked as mutable or tied if it is."""
    touched = {v.buffer for v in program.results if isinstance(v, BufferValue)}
    for _, line in walk(program):
        touched.update(effects(line, program).touched)
    names = [name for name in program.constants if name in touched]
    ties = tied({name: draft.data[name] for name in names})
    constants = {n: replace(program.constants[n], tied_to=ties.get(n)) for n in names}
    constants = {n: replace(c, mutable=draft.is_written(n)) for n, c in constants.items()}
    dropped = program.constants.keys() - constants.keys()
    return program.replace(
        constants=FrozenMap(constants),
        buffers=FrozenMap({n: la for n, la in program.buffers.items() if n not in dropped}),
        data={name: draft.data[name].detach() for name in names},
    )


# Guards on relations of sizes, which become checks.
#
# A graph is traced with example sizes. If tracing depended on a relation of sizes (a size is even,
# two sizes differ), torch has recorded the relation as a guard. Under ``torch.compile``, a failing
# guard causes another trace. Here there is only one graph, so a failing check raises an error.


def guards_of(module: torch.fx.GraphModule, state: aten.State) -> Iterator[AssertSymbol]:
    """Yield a check for each relation that the inputs' sizes must satisfy."""
    seen = set()
    for guard in _recorded_guards(module):
        expr = getattr(guard, "expr", None)
        if not isinstance(expr, sympy.Basic) or _is_range(expr) or is_about_layout(guard):
            continue
        try:
            condition = state.scalar(expr)
        except UnsupportedExprError:
            reason = f"the graph was traced for {expr}, which has no form in a program"
            state.report(module.graph.output_node(), reason)
            continue
        is_known = isinstance(condition, sympy.Basic) and state.is_bound(condition)
        if is_known and condition not in seen and free_symbols(condition):
            seen.add(condition)
            yield AssertSymbol(condition, f"{condition}, as when the graph was made")


def _recorded_guards(module: torch.fx.GraphModule) -> list[Any]:
    """Return torch's guards; none if all sizes are numbers or the graph was loaded."""
    sizes = (size for node in module.graph.nodes for size in _sizes(node.meta.get("val")))
    first = next(sizes, None)
    return [] if first is None else list(getattr(first.node.shape_env, "guards", ()))


def _is_range(expr: sympy.Basic) -> bool:
    """Return True if an expression compares a symbol with a number, as ranges do."""
    return (
        isinstance(expr, Relational)
        and {type(expr.lhs).is_Symbol, type(expr.rhs).is_Symbol} == {True, False}
        and len(expr.free_symbols) == 1
        and (expr.lhs.is_number or expr.rhs.is_number)
    )
