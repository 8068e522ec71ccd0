"""Subgraphs of Inductor's as regions: what is passed in, what comes out, what is written to.

Inductor lowers a branch or the body of a loop as a graph of its own, with symbols of the graph
around it. A region sees those symbols too, so numbers are passed only where a loop changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import sympy

from wrapper_ir.build.draft import at_start
from wrapper_ir.frontends.common.ops import declare
from wrapper_ir.frontends.common.regions import own_results
from wrapper_ir.frontends.inductor.compat import V, ir
from wrapper_ir.frontends.inductor.convert.interface import convert_results
from wrapper_ir.frontends.inductor.convert.state import Scope
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import (
    Arg,
    BufferArg,
    BufferValue,
    CallResult,
    ObjectArg,
    ScalarArg,
    Value,
)
from wrapper_ir.lines.control import BufferInput, Input, Region, ScalarInput
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.program import SymbolKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from wrapper_ir.lines.layout import Device, Layout

ConvertLines: TypeAlias = "Callable[[Scope, Any], None]"
"""Converts the lines of a wrapper into a scope."""


@dataclass(slots=True)
class Branch:
    """A subgraph that is being made a region.

    Attributes:
        scope: The scope inside.
        params: What stands for each operand inside; None where it is not passed.
        results: What the subgraph gives.
    """

    scope: Scope
    params: list[Input | None]
    results: list[Value] = field(default_factory=list)

    @classmethod
    def convert(
        cls,
        outer: Scope,
        graph: Any,
        operands: Sequence[Arg],
        convert_lines: ConvertLines,
        carried: int = 0,
    ) -> Branch:
        """Convert a subgraph that takes the operands, of which the first are carried by a loop.

        Raises:
            UnsupportedLineError: Something in it has no typed form.
        """
        with outer.draft.region():
            made = cls(_inner_scope(outer, graph), [])
            with V.set_graph_handler(graph):
                made._take(operands, carried)
                convert_lines(made.scope, _wrapper_of(graph))
                outputs = graph.wrapper_code.get_graph_outputs()
                made.results = list(convert_results(made.scope, outputs))
        return made

    @property
    def written(self) -> set[int]:
        """Positions of operands that it writes to."""
        return {
            position
            for position, param in enumerate(self.params)
            if isinstance(param, BufferInput) and self.scope.draft.is_written(param.name)
        }

    def region(self, order: Sequence[int]) -> Region:
        """Return the region, whose parameters stand for the operands at these positions."""
        params = tuple(param for i in order if (param := self.params[i]) is not None)
        return Region(params, tuple(self.scope.body), tuple(self.results))

    def gives_back(self, position: int) -> bool:
        """Return whether the result at a position is the operand at that position itself."""
        value, param = self.results[position], self.params[position]
        return (
            isinstance(value, BufferValue)
            and isinstance(param, BufferInput)
            and value.buffer == param.name
        )

    def own_results(self) -> None:
        """Copy results that are the caller's or a constant's, or share storage with another."""
        params = [param.name for param in self.params if isinstance(param, BufferInput)]
        with self.scope.draft.region(self.scope.body):
            self.results = own_results(self.scope.draft, self.results, params)

    # What comes in.

    def _take(self, operands: Sequence[Arg], carried: int) -> None:
        graph = self.scope.graph
        values = [(name, graph.graph_inputs.get(name)) for name in graph.graph_input_names]
        for position, ((name, value), operand) in enumerate(zip(values, operands, strict=True)):
            if isinstance(operand, BufferArg):
                self._take_buffer(name, value, operand.buffer)
            elif isinstance(operand, ScalarArg):
                self._take_number(name, value, operand, is_passed=position < carried)
            else:
                self.params.append(None)

    def _take_buffer(self, name: str, value: Any, operand: str) -> None:
        scope = self.scope
        if not isinstance(value, ir.TensorBox):
            raise _unknown(name, value)
        _learn_shape(scope, value, scope.layout(operand))
        layout = scope.to_layout(value.get_layout())
        param = scope.define(name, at_start(layout))
        scope.lent.add(param)
        self.params.append(BufferInput(param))

    def _take_number(self, name: str, value: Any, operand: ScalarArg, *, is_passed: bool) -> None:
        scope = self.scope
        if not is_passed:
            _learn(scope, value, operand.value)
            self.params.append(None)
            return
        kind = SymbolKind.FLOAT if getattr(value, "is_integer", True) is False else SymbolKind.INT
        symbol = scope.bind_fresh(name, kind)
        if isinstance(value, sympy.Symbol):
            scope.known[value] = sympy.Symbol(symbol, **value.assumptions0)
            scope.bound.add(value.name)
        elif not isinstance(value, (int, sympy.Integer)):
            raise _unknown(name, value)
        self.params.append(ScalarInput(symbol))


def inline_subgraph(
    outer: Scope, graph: Any, operands: Sequence[Arg], convert_lines: ConvertLines
) -> list[Value]:
    """Convert a subgraph's lines in place of its call, and return what it gives.

    Args:
        outer: Where the call stands, and the lines go.
        graph: The subgraph.
        operands: What it is given.
        convert_lines: Converts its lines.

    Raises:
        UnsupportedLineError: Something in it has no typed form.
    """
    scope = _inner_scope(outer, graph)
    scope.held, scope.is_region = outer.held, outer.is_region
    with V.set_graph_handler(graph):
        for name, operand in zip(graph.graph_input_names, operands, strict=True):
            value = graph.graph_inputs.get(name)
            if isinstance(operand, BufferArg):
                _learn_shape(scope, value, scope.layout(operand.buffer))
                scope.stand_for(name, operand.buffer)
                scope.lent.add(outer.draft.owner(operand.buffer))
            elif isinstance(operand, ScalarArg):
                _learn(scope, value, operand.value)
            elif isinstance(operand, ObjectArg):
                scope.objects[name] = operand.object
        convert_lines(scope, _wrapper_of(graph))
        results = convert_results(scope, graph.wrapper_code.get_graph_outputs())
    outer.bound |= scope.bound
    outer.known = {**scope.known, **outer.known}
    given = [value.buffer for value in results if isinstance(value, BufferValue)]
    for name in given:
        outer.stand_for(name, name)
    outer.lent |= _shared_roots(outer, given, operands)
    return list(results)


def _shared_roots(outer: Scope, given: Sequence[str], operands: Sequence[Arg]) -> set[str]:
    """Return the storages of which a subgraph gives more than one name, or another one."""
    roots = [outer.draft.owner(name) for name in given]
    passed = {outer.draft.owner(arg.buffer) for arg in operands if isinstance(arg, BufferArg)}
    return {root for root in roots if root in passed or roots.count(root) > 1}


def call_op(
    scope: Scope,
    op: torch._ops.OpOverload,
    args: tuple[Arg, ...],
    device: Device,
    *,
    results: tuple[CallResult, ...] = (),
    origin: int | None = None,
) -> None:
    """Emit the call of an op that Inductor has not written."""
    name = declare(scope.draft, op)
    scope.emit(ExternKernel(name, args, results=results, device=device, origin=origin))


def _wrapper_of(graph: Any) -> Any:
    """Return the wrapper of a subgraph, which must be ours.

    Raises:
        UnsupportedLineError: Inductor has made one of its own, which notes nothing.
    """
    wrapper = graph.wrapper_code
    if not hasattr(wrapper, "control_notes"):
        why = f"its wrapper is a {type(wrapper).__name__}, not ours"
        raise UnsupportedLineError(kind="subgraph", text=str(graph.name), why=why)
    return wrapper


def _inner_scope(outer: Scope, graph: Any) -> Scope:
    outer.draft.reserved.update(graph.name_to_buffer, graph.constants)
    return Scope(outer.shared, graph, outer)


def _learn_shape(scope: Scope, value: Any, layout: Layout) -> None:
    """Note what the sizes and strides of an input are outside."""
    for inner, given in zip(value.get_size(), layout.size, strict=True):
        _learn(scope, inner, given)
    for inner, given in zip(value.get_stride(), layout.stride, strict=True):
        _learn(scope, inner, given)


def _learn(scope: Scope, inner: Any, outer: Any) -> None:
    """Note what one of torch's symbols, known inside only, is outside."""
    if isinstance(inner, sympy.Symbol) and inner.name not in scope.bound:
        scope.known[inner] = sympy.sympify(outer)
        scope.bound.add(inner.name)


def _unknown(name: str, value: Any) -> UnsupportedLineError:
    return UnsupportedLineError(
        kind="input of a subgraph",
        text=f"{name}: {type(value).__name__}",
        why="it is neither a tensor nor a number that a region takes",
    )
