"""Values that go past a program: a graph takes them, never looks into them, and may return them.

Tensor subclasses bring them: the ragged size of a nested tensor is an integer without a value, the
mesh of a distributed tensor is an object of Python's. Compiled autograd has a graph take the hooks
of its backward, for the trace alone. No line could use any of these; so the program is made without
them, and the function that is called puts them where they belong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy
from torch.utils._sympy.singleton_int import SingletonInt

from wrapper_ir.frontends.inductor.compat import BackwardState, ir
from wrapper_ir.frontends.inductor.convert.objects import traced_object
from wrapper_ir.frontends.inductor.convert.symbols import known_values
from wrapper_ir.runtime import class_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Passing", "passing_of"]


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
