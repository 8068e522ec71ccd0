"""A whole graph: inputs, lines, results, put together; and what goes past its ``Program``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sympy
from torch.utils._sympy.singleton_int import SingletonInt

from wrapper_ir.frontends.inductor.compat import GPU_ALIGN_BYTES, BackwardState, ir
from wrapper_ir.frontends.inductor.convert.arguments import traced_object
from wrapper_ir.frontends.inductor.convert.interface import convert_inputs, convert_results
from wrapper_ir.frontends.inductor.convert.lines import convert_lines
from wrapper_ir.frontends.inductor.convert.operators import add_checks
from wrapper_ir.frontends.inductor.convert.state import Scope, Shared
from wrapper_ir.frontends.inductor.convert.streams import refuse_races
from wrapper_ir.frontends.inductor.convert.values import known_values
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.control import BufferInput, Input
from wrapper_ir.lines.program import GraphRole, Program
from wrapper_ir.lines.symbols import AssertLayout
from wrapper_ir.runtime import class_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.lines.args import Value

# Values that go past a program: a graph takes them, never looks into them, and may return them.
#
# Tensor subclasses bring them: the ragged size of a nested tensor is an integer without a value,
# the mesh of a distributed tensor is an object of Python's. Compiled autograd has a graph take the
# hooks of its backward, for the trace alone. No line could use any of these; so the program is made
# without them, and the function that is called puts them where they belong.


@dataclass(frozen=True)
class Passing:
    """Positions of what goes past a program.

    Attributes:
        inputs: Among the arguments of the graph.
        results: Position among its results -> that of the argument which is returned there.
        constants: Position among its results -> the object which is returned there, and the name
            under which Inductor gives it to the module.
    """

    inputs: tuple[int, ...] = ()
    results: Mapping[int, int] = field(default_factory=dict)
    constants: Mapping[int, tuple[str, Any]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if the program takes and returns everything."""
        return not (self.inputs or self.constants)

    def returns(self, position: int) -> bool:
        """Return whether the result at a position goes past the program."""
        return position in self.results or position in self.constants


def passing_of(graph: Any, outputs: Sequence[Any]) -> Passing:
    """Return what goes past the program of a graph.

    Args:
        graph: Inductor's graph.
        outputs: Its results, as Inductor's wrapper has them.
    """
    positions: dict[Any, int] = {}
    inputs = []
    examples = graph.example_inputs or ()
    states = {i for i, value in enumerate(examples) if isinstance(value, BackwardState)}
    for position, name in enumerate(graph.graph_input_names):
        key = _opaque(graph, graph.graph_inputs.get(name))
        if key is not None:
            positions.setdefault(key, position)
        if key is not None or position in states:
            inputs.append(position)
    keys = [_key(value) for value in outputs]
    results = {i: positions[key] for i, key in enumerate(keys) if key in positions}
    constants = {
        i: (value.get_name(), _real(value))
        for i, value in enumerate(outputs)
        if _is_of_python(value) and i not in results
    }
    return Passing(tuple(inputs), results, constants)


def _opaque(graph: Any, value: Any) -> Any:
    """Return by what an input is known again, None if lines may use it."""
    if _is_of_python(value):
        return _key(value)
    if isinstance(value, sympy.Symbol):
        return value if isinstance(known_values(graph).get(value), SingletonInt) else None
    return None


def _is_of_python(value: Any) -> bool:
    """Return whether a node is an object of no custom class."""
    return isinstance(value, ir.TorchBindObject) and not class_of(_real(value))


def _real(value: Any) -> Any:
    return traced_object(value.get_value())


def _key(value: Any) -> Any:
    """Return by what a value is known as an input: nodes of the graph by name, numbers as such."""
    if isinstance(value, ir.TorchBindObject):
        return ("object", value.get_name())
    value = value.expr if isinstance(value, ir.ShapeAsConstantBuffer) else value
    return value if isinstance(value, sympy.Symbol) else None


_NOTHING: Final = Passing()


def convert_graph(
    wrapper: Any,
    graph: Any,
    *,
    is_inference: bool,
    names: Sequence[str] = (),
    passing: Passing = _NOTHING,
) -> Program:
    """Return the program of a scheduled graph.

    Args:
        wrapper: Our wrapper, which holds the lines.
        graph: Inductor's graph, alive.
        is_inference: Whether nothing is kept for a backward.
        names: What to call the inputs, in order; empty for Inductor's names.
        passing: Which inputs and results go past the program.

    Raises:
        UnsupportedLineError: Something has no typed form.
        UnsupportedExprError: An expression uses a function that the vocabulary lacks.
    """
    shared = Shared(wrapper, convert_lines)
    results = _convert(shared, wrapper, graph, names, passing)
    role = _role(graph, is_inference=is_inference)
    program = shared.draft.program(role.value, results, role=role)
    refuse_races(program)
    return program


def _convert(
    shared: Shared, wrapper: Any, graph: Any, names: Sequence[str], passing: Passing
) -> tuple[Value, ...]:
    _refuse_clashes(graph)
    shared.draft.reserved.update(graph.name_to_buffer, graph.graph_input_names, graph.constants)
    scope = Scope(shared, graph)
    scope.rename(graph.graph_input_names, names)
    inputs = convert_inputs(scope, passing.inputs, donates=not _calls_subgraphs(wrapper))
    start = len(scope.body)
    shared.convert_lines(scope, wrapper)
    outputs = enumerate(wrapper.get_graph_outputs())
    results = convert_results(scope, [node for i, node in outputs if not passing.returns(i)])
    add_checks(scope, start, inputs, results)
    if wrapper.checks_inputs:
        scope.body[start:start] = _missing_checks(scope, inputs)
    if wrapper.checks_alignment:
        _check_alignment(scope, start, inputs)
    shared.draft.inputs.extend(inputs)
    return results


def _calls_subgraphs(wrapper: Any) -> bool:
    """Return whether a graph calls subgraphs: its forward may have given it the same storage twice.

    What a subgraph keeps for its backward can be what it was given, or gives as a result too;
    nobody traces that, so such an input may be a tensor of the user's.
    """
    notes = wrapper.control_notes.values()
    return any(isinstance(note.node, ir.InvokeSubgraph) for note in notes)


def _refuse_clashes(graph: Any) -> None:
    """Refuse a constant called as one of Inductor's buffers is: kernels would mix them up.

    Raises:
        UnsupportedLineError: There is one.
    """
    taken = [*graph.name_to_buffer, *graph.graph_input_names]
    for name in sorted(graph.constants.keys() & taken):
        raise UnsupportedLineError(
            kind="name of a constant",
            text=str(graph.allocated_constant_name.get(name, name)),
            why=f"Inductor calls a buffer {name!r} too, and would mix them up",
            hint="give the parameter another name",
        )


def _missing_checks(scope: Scope, inputs: tuple[Input, ...]) -> list[AssertLayout]:
    """Return checks of the inputs in use that no line checks: in torch 2.11 they are all text."""
    checked = {line.buffer for line in scope.body if isinstance(line, AssertLayout)}
    names = [value.name for value in inputs if isinstance(value, BufferInput)]
    return [AssertLayout(name) for name in names if name in scope.used - checked]


def _check_alignment(scope: Scope, start: int, inputs: tuple[Input, ...]) -> None:
    """Have the addresses checked of inputs that a kernel takes to be multiples of 16 bytes.

    Functions of ``torch.compile`` are called by one of Inductor's that copies such inputs.
    """
    names = [value.name for value in inputs if isinstance(value, BufferInput)]
    wanted = {name: None for name in names if name in scope.shared.aligned}
    for index, line in enumerate(scope.body):
        if isinstance(line, AssertLayout) and line.buffer in wanted:
            scope.body[index] = dataclasses.replace(line, alignment=GPU_ALIGN_BYTES)
            del wanted[line.buffer]
    scope.body[start:start] = [AssertLayout(name, alignment=GPU_ALIGN_BYTES) for name in wanted]


def _role(graph: Any, *, is_inference: bool) -> GraphRole:
    if graph.is_backward:
        return GraphRole.BACKWARD
    return GraphRole.INFERENCE if is_inference else GraphRole.FORWARD
