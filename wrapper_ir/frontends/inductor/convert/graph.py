"""The conversion of a whole graph, and the values that bypass its ``Program``."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sympy
import torch
from sympy.core.numbers import Infinity, NaN, NegativeInfinity
from torch.utils._sympy.singleton_int import SingletonInt

from wrapper_ir.build.draft import Equation, bind_given, metadata_of
from wrapper_ir.frontends.common.expressions import to_dim, to_scalar
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.convert import operators
from wrapper_ir.frontends.inductor.convert.groups import made_group
from wrapper_ir.frontends.inductor.convert.lines import convert_lines
from wrapper_ir.frontends.inductor.convert.state import Scope, Shared
from wrapper_ir.frontends.inductor.convert.streams import joined, refuse_races
from wrapper_ir.frontends.inductor.convert.values import known_values
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.static_inputs import static_inputs
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.control import BufferInput, Input, ScalarInput
from wrapper_ir.lines.program import GraphRole, Program, SymbolInfo, SymbolKind
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol
from wrapper_ir.runtime import class_of

if TYPE_CHECKING:

    from torch.fx import Node

    from wrapper_ir.lines.args import Value


# Values that bypass a program: a graph takes them, never looks inside, and may return them.
#
# They come from tensor subclasses: the ragged size of a nested tensor is an integer without a
# value, the mesh of a distributed tensor is a Python object. Compiled autograd passes a graph the
# hooks of its backward, for tracing only. No line could use any of these, so the program is made
# without them, and the function that is called puts them where they belong.


@dataclass(frozen=True)
class Passing:
    """The values that bypass a program, by position.

    ``results`` are those of the arguments that are returned, by position among the results;
    ``constants`` are objects that are, with Inductor's names for them in the module; ``groups`` are
    process groups that the graph asks for, with the names by which they are found; ``values`` are
    constants that the module's text makes.
    """

    inputs: tuple[int, ...] = ()
    results: Mapping[int, int] = field(default_factory=dict)
    constants: Mapping[int, tuple[str, Any]] = field(default_factory=dict)
    groups: Mapping[int, str] = field(default_factory=dict)
    values: Mapping[int, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if nothing bypasses the program."""
        return not (self.inputs or self.constants or self.groups or self.values)

    def returns(self, position: int) -> bool:
        """Return whether the result at a position bypasses the program."""
        every = (self.results, self.constants, self.groups, self.values)
        return any(position in each for each in every)


def passing_of(graph: Any, outputs: Sequence[Any]) -> Passing:
    """Return the values that bypass the program of a graph with the given outputs."""
    positions: dict[Any, int] = {}
    inputs = []
    examples = graph.example_inputs or ()
    states = {i for i, value in enumerate(examples) if isinstance(value, compat.BackwardState)}
    for position, name in enumerate(graph.graph_input_names):
        key = _opaque(graph, graph.graph_inputs.get(name))
        if key is not None:
            positions.setdefault(key, position)
        if key is not None or position in states:
            inputs.append(position)
    keys = [_key(value) for value in outputs]
    results = {i: positions[key] for i, key in enumerate(keys) if key in positions}
    objects = {i: value for i, value in enumerate(outputs) if _is_of_python(value)}
    rows = [(i, value) for i, value in objects.items() if i not in results]
    constants = {i: (value.get_name(), _real(value)) for i, value in rows}
    groups = {i: name for i, value in enumerate(outputs) if (name := made_group(value))}
    values = {i: v.value for i, v in enumerate(outputs) if isinstance(v, compat.OpaqueConstant)}
    return Passing(tuple(inputs), results, constants, groups, values)


def _opaque(graph: Any, value: Any) -> Any:
    """Return the key that identifies an input, or None if lines may use it."""
    if _is_of_python(value):
        return _key(value)
    if not isinstance(value, sympy.Symbol):
        return None
    return value if isinstance(known_values(graph).get(value), SingletonInt) else None


def _is_of_python(value: Any) -> bool:
    """Return whether a node is a Python object, not one of a custom class."""
    if isinstance(value, compat.OpaqueObject):
        return True
    return isinstance(value, ir.TorchBindObject) and not class_of(_real(value))


def _real(value: Any) -> Any:
    is_opaque = isinstance(value, compat.OpaqueObject)
    return operators.traced_object(value.value if is_opaque else value.get_value())


def _key(value: Any) -> Any:
    """Return the key of a value among the inputs: a name for objects, the symbol for numbers."""
    if isinstance(value, (ir.TorchBindObject, compat.OpaqueObject)):
        return ("object", value.get_name())
    value = value.expr if isinstance(value, ir.ShapeAsConstantBuffer) else value
    return value if isinstance(value, sympy.Symbol) else None


def convert_graph(
    wrapper: Any, graph: Any, *, is_inference: bool, names: Sequence[str], passing: Passing
) -> Program:
    """Return the program of a scheduled graph, from the lines that our wrapper holds.

    ``names`` are those of the inputs, in order; empty for Inductor's names.
    """
    shared = Shared(wrapper, convert_lines)
    results = _convert(shared, wrapper, graph, names, passing)
    role = GraphRole.INFERENCE if is_inference else GraphRole.FORWARD
    role = GraphRole.BACKWARD if graph.is_backward else role
    program = shared.draft.program(role.value, results, role=role)
    if role is GraphRole.BACKWARD and passing.is_empty:
        program = program.replace(tangents=_tangents(graph))
    program = joined(program)
    refuse_races(program)
    return program


def _convert(
    shared: Shared, wrapper: Any, graph: Any, names: Sequence[str], passing: Passing
) -> tuple[Value, ...]:
    _refuse_clashes(graph)
    shared.draft.reserved.update(graph.name_to_buffer, graph.graph_input_names, graph.constants)
    scope = Scope(shared, graph)
    scope.rename(graph.graph_input_names, names)
    # What a subgraph saves for its backward can be one of its inputs, or also one of its results.
    # Nobody tracks that, so where a graph calls subgraphs, its forward may have passed it a storage
    # twice, and an input may be a tensor of the user's.
    written = wrapper.control_notes.values()
    donates = not any(isinstance(note.node, ir.InvokeSubgraph) for note in written)
    inputs = convert_inputs(scope, passing.inputs, donates=donates)
    start = len(scope.body)
    shared.convert_lines(scope, wrapper)
    outputs = enumerate(wrapper.get_graph_outputs())
    returned = [node for i, node in outputs if not passing.returns(i)]
    results = operators.convert_results(scope, returned)
    operators.add_checks(scope, start, inputs, results)
    if wrapper.checks_inputs:
        scope.body[start:start] = _missing_checks(scope, inputs)
    inputs = _realigned(scope, wrapper, inputs, results)
    if wrapper.checks_alignment:
        placed = [
            each.name for each in inputs if isinstance(each, BufferInput) and not each.realigned
        ]
        _check_alignment(scope, start, [*placed, *shared.draft.constants])
    shared.draft.inputs.extend(inputs)
    return results


def _refuse_clashes(graph: Any) -> None:
    """Refuse a constant with the name of one of Inductor's buffers: kernels would confuse them."""
    taken = [*graph.name_to_buffer, *graph.graph_input_names]
    for name in sorted(graph.constants.keys() & taken):
        text, hint = str(graph.allocated_constant_name.get(name, name)), "rename the parameter"
        why = f"Inductor has a buffer named {name!r} too, and kernels would confuse them"
        raise UnsupportedLineError("name of a constant", text, why, hint=hint)


def _missing_checks(scope: Scope, inputs: tuple[Input, ...]) -> list[AssertLayout]:
    """Return checks for the used inputs that no line checks; in torch 2.11 they are all text."""
    checked = {line.buffer for line in scope.body if isinstance(line, AssertLayout)}
    return [AssertLayout(name) for name in _buffers(inputs) if name in scope.used - checked]


def _buffers(inputs: tuple[Input, ...]) -> list[str]:
    return [value.name for value in inputs if isinstance(value, BufferInput)]


def _realigned(
    scope: Scope, wrapper: Any, inputs: tuple[Input, ...], results: Sequence[Value]
) -> tuple[Input, ...]:
    """Let the program copy inputs at odd addresses, where Inductor expects even ones.

    Inductor copies those that are written to back in a function round the graph; captured programs
    refuse them, as those of which a result is a view. Work on streams of the user's may read an
    input before anything on the current stream is done.
    """
    if not wrapper.realigns or scope.shared.draft.streams:
        return inputs
    graph = scope.graph
    kept = {graph.graph_input_names[at] for at in graph.mutated_input_idxs}
    expected = {graph.graph_input_names[at] for at in graph.inputs_to_check or ()} - kept
    names = {scope.name(name) for name in expected}
    if wrapper.checks_alignment:
        values = (value.buffer for value in results if isinstance(value, BufferValue))
        names.difference_update(*map(scope.draft.roots, values))
    return tuple(
        (
            replace(each, realigned=compat.GPU_ALIGN_BYTES)
            if isinstance(each, BufferInput) and each.name in names
            else each
        )
        for each in inputs
    )


def _check_alignment(scope: Scope, start: int, given: Sequence[str]) -> None:
    """Check the addresses of what is given that a kernel assumes to be multiples of 16 bytes.

    Functions of ``torch.compile`` need no check: a function of Inductor's copies inputs that are
    written to, and constants stay what they were (``wrapper.assume_no_alignment``).
    """
    aligned = scope.shared.aligned
    pending = {name: aligned[name] for name in given if name in aligned}
    for index, line in enumerate(scope.body):
        if isinstance(line, AssertLayout) and line.buffer in pending:
            scope.body[index] = dataclasses.replace(line, alignment=pending.pop(line.buffer))
    constants = scope.shared.draft.constants
    scope.body[start:start] = [
        AssertLayout(name, "constant" if name in constants else "input", alignment=each)
        for name, each in pending.items()
    ]


def _tangents(graph: Any) -> tuple[int, ...]:
    """Return which results of its forward a backward's last inputs are the gradients of.

    Empty where AOTAutograd does more between the two than pass on the saved values and take one
    gradient per input; for example where inputs or their views are results of the forward.
    """
    trace = compat.TracingContext.try_get()
    metadata = None if trace is None else trace.fw_metadata
    if metadata is None or metadata.tokens or metadata.num_outputs_aliased:
        return ()
    if metadata.num_mutated_inp_runtime_indices or metadata.num_intermediate_bases:
        return ()
    (output,) = graph.module.graph.find_nodes(op="output")
    descriptors = output.meta.get("desc") or [object()]
    if not all(_is_gradient_of(each, position) for position, each in enumerate(descriptors)):
        return ()
    inputs = [node.meta.get("desc") for node in graph.module.graph.find_nodes(op="placeholder")]
    saved = [each for each in inputs if not isinstance(each, compat.TangentAOTInput)]
    last = inputs[len(saved) :]
    # An input may also be the gradient of something that is no result of the user's function.
    tangents = [each.output for each in last if isinstance(each, compat.TangentAOTInput)]
    results = [output.idx for output in tangents if isinstance(output, compat.PlainAOTOutput)]
    return tuple(results) if len(results) == len(last) else ()


def _is_gradient_of(value: Any, position: int) -> bool:
    """Return whether a backward's result is for the input at a position: a gradient, or None."""
    is_gradient = isinstance(value, compat.GradAOTOutput)
    return value is None or (is_gradient and getattr(value.grad_of, "idx", None) == position)


# The inputs of a graph.


#: The sympy types of a float.
_FLOATS = (sympy.Float, Infinity, NegativeInfinity, NaN)


def convert_inputs(scope: Scope, left_out: Container[int], *, donates: bool) -> tuple[Input, ...]:
    """Return the inputs in the caller's order, and bind the symbols in their shapes.

    ``donates`` says that the caller gives up the inputs that Inductor calls donated.
    """
    graph = scope.graph
    names = [n for i, n in enumerate(graph.graph_input_names) if i not in left_out]
    values = [(name, graph.graph_inputs.get(name)) for name in names]
    rows = graph.graph_inputs_original.items()
    donated = {scope.name(name) for name, value in rows if isinstance(value, ir.DonatedBuffer)}
    if not donates:
        scope.lent |= donated
    static = {scope.name(name) for name in static_inputs(graph)} - donated
    equations: list[Equation] = []
    inputs = tuple(_input(scope, name, value, donated, static, equations) for name, value in values)
    replaced = replaced_inputs(graph)
    tensors = {name: value for name, value in values if isinstance(value, ir.TensorBox)}
    layouts = {scope.name(name): value.get_layout() for name, value in tensors.items()}
    given = {name: node for name, node in replaced.items() if name in tensors}
    layouts |= {scope.name(name): layout_at_entry(node) for name, node in given.items()}
    for name, layout in layouts.items():
        equations += (Equation(value, source) for value, source in metadata_of(name, layout))
    _bind(scope, equations)
    for node in replaced.values():
        allow_any_size(scope, node)
    for name, layout in layouts.items():
        scope.define(name, scope.to_layout(layout))
    return inputs


def _input(
    scope: Scope,
    name: str,
    value: Any,
    donated: set[str],
    static: set[str],
    equations: list[Equation],
) -> Input:
    """Return an input; one that is a number adds an equation for it if other sizes give it."""
    if isinstance(value, ir.TensorBox):
        name = scope.name(name)
        is_donated = name in donated and name not in scope.lent
        return BufferInput(name, donated=is_donated, static=name in static)
    if value is None:
        return _unnamed_number(scope, name, SymbolKind.NONE)
    symbol = _unbound(scope, value)
    if symbol is not None:
        bound = scope.bind(symbol)
        equations.append(Equation(value, bound))
        return ScalarInput(bound)
    if isinstance(value, sympy.Basic):
        kind = SymbolKind.FLOAT if isinstance(value, _FLOATS) else SymbolKind.INT
        number = _unnamed_number(scope, name, kind)
        if scope.shared.wrapper.checks_numbers:
            _check_known(scope, number.symbol, value)
        return number
    if isinstance(value, operators.OBJECTS):
        return operators.object_input(scope, name, value)
    text, why = f"{name}: {type(value).__name__}", "it is neither a tensor nor a number"
    raise UnsupportedLineError("graph input", text, why)


def _unnamed_number(scope: Scope, name: str, kind: SymbolKind) -> ScalarInput:
    """Return an input that binds an unused symbol: the graph knows its value."""
    name = scope.name(name)
    scope.bound.add(name)
    scope.draft.bind(name, SymbolInfo(kind))
    return ScalarInput(name)


def _check_known(scope: Scope, symbol: str, value: sympy.Basic) -> None:
    """Check an input that the graph took for a constant number."""
    if isinstance(value, sympy.Integer):
        condition, number = ours.scalar(sympy.Eq(ours.symbol(symbol), value)), str(value)
    elif isinstance(value, _FLOATS):
        condition = to_scalar(_is_float(ours.real_symbol(symbol), value))
        number = str(float(value))
    else:
        return
    scope.emit(AssertSymbol(condition, f"{symbol} to be {number}"))


def _is_float(number: sympy.Symbol, value: sympy.Basic) -> sympy.Basic:
    """Return the condition that a number is a given float, which may be infinite or none."""
    if isinstance(value, NaN):
        # NaN is on neither side of zero; sympy would simplify an "or" to true.
        sides = [ours.Where(side, sympy.S.One, sympy.S.Zero) for side in (number < 0, number >= 0)]
        return sympy.Eq(sympy.Add(*sides), 0)
    return sympy.Eq(number, value, evaluate=False)


def _unbound(scope: Scope, value: Any) -> sympy.Symbol | None:
    """Return the symbol that a number of an input is, or None if it is no symbol or a bound one.

    A guard may have replaced it by another one, which is in the lines then.
    """
    if not isinstance(value, sympy.Symbol):
        return None
    symbols = (scope.graph.sizevars.simplify(value), value)
    unbound = (each for each in symbols if isinstance(each, sympy.Symbol))
    return next((each for each in unbound if each.name not in scope.bound), None)


def _bind(scope: Scope, equations: Sequence[Equation]) -> None:
    """Bind the symbols that the numbers, sizes and strides of the inputs give."""
    symbols: dict[str, sympy.Symbol] = {}
    solvable = []
    for value, given, _ in equations:
        symbol = _unbound(scope, value)
        found = scope.graph.sizevars.simplify(value) if symbol is None else symbol
        symbols |= {each.name: each for each in found.free_symbols}
        solvable.append(Equation(to_dim(found), given))
    for line in bind_given(scope.draft, solvable, lambda name: scope.bind(symbols[name])):
        scope.emit(line)


# Inputs that a graph only gives other data (``x.data = y``) and never reads.
#
# The assignment changes what the tensor is. Dynamo's guards and, before torch 2.15, Inductor's
# graphs describe such an input as it is afterwards; its fx node describes it at entry. Since
# nothing reads it, any size is fine, including a 0 or 1 that its symbol's range excludes.


def replaced_inputs(graph: Any) -> Mapping[str, Node]:
    """Return the inputs, by name, whose only use is to be given other data."""
    return {
        node.target: node
        for node in graph.module.graph.nodes
        if node.op == "placeholder"
        and len(node.users) == 1
        and compat.gives_data((user := next(iter(node.users))).target)
        and user.args[0] is node
        and user.args[1] is not node
    }


def layout_at_entry(node: Node) -> Any:
    """Return the layout of an input before it is given other data."""
    value = node.meta["val"]
    size, stride = ([_expression(n) for n in numbers] for numbers in (value.shape, value.stride()))
    return ir.FixedLayout(value.device, value.dtype, size, stride)


def allow_any_size(scope: Scope, node: Node) -> None:
    """Lift the range of a symbol that occurs only as a size of this input."""
    others = [n for n in scope.graph.module.graph.nodes if n is not node and n not in node.users]
    for symbol in layout_at_entry(node).size:
        if isinstance(symbol, sympy.Symbol) and not any(_mentions(n, symbol) for n in others):
            info = scope.draft.symbols[symbol.name]
            scope.draft.symbols[symbol.name] = replace(info, lower=0, upper=None)


def _expression(number: int | torch.SymInt) -> sympy.Expr:
    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)


def _mentions(node: Node, symbol: sympy.Symbol) -> bool:
    """Return whether a node's value contains a symbol; an unused input does not count."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return bool(node.users) and symbol in value.node.expr.free_symbols
    if not isinstance(value, torch.Tensor):
        return False
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(n, torch.SymInt) and symbol in n.node.expr.free_symbols for n in numbers)
