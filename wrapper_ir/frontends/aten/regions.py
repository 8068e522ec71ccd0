"""Regions: the graphs of choices and loops, isolated from the buffers around them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.fx import GraphModule

from wrapper_ir.frontends.aten.calls import declare
from wrapper_ir.frontends.aten.completion import completed
from wrapper_ir.frontends.aten.state import POISON, SYMBOLIC, Ref, UnsupportedNodeError
from wrapper_ir.lines.args import (
    Access,
    Arg,
    BufferArg,
    BufferValue,
    CallResult,
    NoneValue,
    ResultBuffer,
    ScalarArg,
    ScalarValue,
    Value,
)
from wrapper_ir.lines.control import BufferInput, Input, Region, ScalarInput
from wrapper_ir.lines.expr import is_relation
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.program import AnyLine, SymbolKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node

    from wrapper_ir.frontends.aten.graph import GraphWalk

__all__ = ["Built", "RegionBuilder", "operand", "to_value"]


def operand(value: Any) -> BufferArg | ScalarArg:
    """Return a value as what a region is given."""
    if isinstance(value, Ref):
        return BufferArg(value.name, Access.READ)
    if isinstance(value, (bool, int, float, sympy.Basic)):
        return ScalarArg(value)
    raise UnsupportedNodeError(f"a region takes no value of type {type(value).__name__}")


def to_value(value: Any) -> Value:
    """Return a value as a result of a program or a region."""
    if value is None:
        return NoneValue()
    if isinstance(value, Ref):
        return BufferValue(value.name)
    if isinstance(value, (bool, int, float, complex, sympy.Basic)):
        return ScalarValue(value)
    raise UnsupportedNodeError(f"a result of type {type(value).__name__} has no form")


class Built:
    """A region and the walk that made it, which may append to it."""

    def __init__(self, region: Region, walk: GraphWalk) -> None:
        self.region = region
        self.walk = walk


class RegionBuilder:
    """Builds the regions of one line.

    What is a number outside and stays the same inside is not passed: regions see the symbols bound
    before them. What a loop carries is passed in any case.

    Args:
        walk: The walk that the line belongs to.
        node: The node of the line.
        given: The values that both regions take.
        carried: How many of them a loop carries.
    """

    def __init__(self, walk: GraphWalk, node: Node, given: Sequence[Any], carried: int = 0) -> None:
        self._walk = walk
        self._node = node
        self._given = tuple(given)
        self._carried = carried

    def _is_passed(self, position: int) -> bool:
        return position < self._carried or isinstance(self._given[position], Ref)

    def build(self, module: Any) -> Built:
        """Convert a graph into a region."""
        if not isinstance(module, GraphModule):
            raise UnsupportedNodeError("what it calls is no graph")
        state = self._walk.state
        module = completed(module)
        places = [n for n in module.graph.nodes if n.op == "placeholder"]
        if len(places) != len(self._given):
            raise UnsupportedNodeError("a graph takes another number of arguments")
        known = dict(state.known)
        body: list[AnyLine] = []
        walk = type(self._walk)(state, module, body, self._walk.prefix)
        params: list[Input] = []
        inside = []
        for position, (place, value) in enumerate(zip(places, self._given, strict=True)):
            inside.append(self._param(position, place, value, params))
        problems = len(state.problems)
        out = walk.run(inside)
        if len(state.problems) > problems:
            raise UnsupportedNodeError("its graph has nodes without a form")
        values = list(out) if isinstance(out, (list, tuple)) else [out]
        results = tuple(
            self._owned(walk, value, inside, values[:n]) for n, value in enumerate(values)
        )
        state.known = known
        return Built(Region(tuple(params), tuple(body), results), walk)

    def _param(self, position: int, place: Node, value: Any, params: list[Input]) -> Any:
        """Return what a placeholder of a graph is inside of the region."""
        state = self._walk.state
        known = place.meta.get("val")
        if not self._is_passed(position):
            self._learn(known, value)
            return value
        if isinstance(value, Ref):
            outer = state.buffers[value.name]
            if isinstance(known, torch.Tensor):
                for size, given in zip(known.shape, outer.size, strict=True):
                    self._learn(size, given)
            layout = Layout(outer.dtype, outer.device, outer.size, outer.stride)
            start = state.start_of(known) if isinstance(known, torch.Tensor) else 0
            name = state.define_like(place.name, layout, start)
            params.append(BufferInput(name))
            return Ref(name)
        kind = SymbolKind.FLOAT if isinstance(value, float) else SymbolKind.INT
        kind = SymbolKind.BOOL if is_relation(value) else kind
        symbol = state.bind_fresh(place.name, kind)
        params.append(ScalarInput(symbol))
        self._learn(known, state.symbol(symbol))
        return state.symbol(symbol)

    def _learn(self, inner: Any, outer: Any) -> None:
        """Note what one of torch's symbols, known inside only, is outside."""
        if isinstance(inner, SYMBOLIC):
            expr = inner.node.expr
            is_new = expr.is_Symbol and expr.name not in self._walk.state.symbols
            if is_new and isinstance(outer, (int, float, sympy.Basic)):
                self._walk.state.known[expr.name] = outer

    def _owned(
        self, walk: GraphWalk, value: Any, inside: Sequence[Any], earlier: Sequence[Any]
    ) -> Value:
        """Return a result that nobody else holds, no parameter, constant or other result."""
        state = self._walk.state
        if value is POISON:
            raise UnsupportedNodeError("its graph has nodes without a form")
        if isinstance(value, Ref):
            lent = {item.name for item in inside if isinstance(item, Ref)}
            others = [other.name for other in earlier if isinstance(other, Ref)]
            taken = lent.union(state.constants, *(state.roots[other] for other in others))
            if state.roots[value.name] & taken:
                value = self.copied(walk, self._node, value, state.buffers[value.name])
        return to_value(value)

    @staticmethod
    def copied(walk: GraphWalk, node: Node, value: Ref, layout: Layout) -> Ref:
        """Return a copy of a buffer, in a layout of its own."""
        state = walk.state
        origin = state.origin(node)
        plain = Layout(layout.dtype, layout.device, layout.size, layout.stride)
        name = state.define_like(f"{value.name}_copy", plain)
        walk.emit(Allocate(name, origin=origin))
        op = declare(state, torch.ops.aten.copy_.default)
        args = (BufferArg(name, Access.WRITE), BufferArg(value.name))
        walk.emit(ExternKernel(op, args, device=layout.device, origin=origin))
        return Ref(name)

    def finish(self, built: Built, results: Sequence[CallResult]) -> None:
        """Bring what a region gives into the layouts of the line's results."""
        state = self._walk.state
        buffers = iter(results)
        found: list[Value] = []
        for value in built.region.results:
            if not isinstance(value, NoneValue):
                outer = next(buffers)
                if isinstance(value, BufferValue) and isinstance(outer, ResultBuffer):
                    value = self._conformed(built, value, state.buffers[outer.out])
            found.append(value)
        region = built.region
        built.region = replace(region, body=tuple(built.walk.body), results=tuple(found))

    def _conformed(self, built: Built, value: BufferValue, wanted: Layout) -> BufferValue:
        state = self._walk.state
        have = state.buffers[value.buffer]
        is_same = have.stride == wanted.stride or have.size != wanted.size
        if is_same or not all(map(state.is_bound, wanted.stride)):
            return value
        made = self.copied(built.walk, self._node, Ref(value.buffer), wanted)
        return BufferValue(made.name)

    def operands(self, *regions: Built) -> tuple[Arg, ...]:
        """Return what the line passes, for writing where a region writes."""
        passed = [v for n, v in enumerate(self._given) if self._is_passed(n)]
        found: list[Arg] = []
        for position, value in enumerate(passed):
            arg: Arg = operand(value)
            if isinstance(arg, BufferArg):
                names = {getattr(built.region.params[position], "name", "") for built in regions}
                if any(names & self._walk.state.roots[w] for w in self._walk.state.written):
                    arg = BufferArg(arg.buffer, Access.READ_WRITE)
                    self._walk.state.written.add(arg.buffer)
            found.append(arg)
        return tuple(found)
