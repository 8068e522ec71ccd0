"""Rendering of conditionals and loops as higher-order ops over graphs of their own.

A subgraph of a higher-order op sees nothing but its operands. So the constants and symbols that a
region uses become operands of its line. A symbol that is the size of a tensor operand is read from
it. All other numbers, including results of regions, are passed in 0-d tensors: torch can trace
these, but neither constants among the operands nor numbers that differ between branches.

Torch requires that a loop body returns no input, and that the operands share no memory: a pass sees
to that. Torch also has an op for loops that stack the values of all iterations. If a write would
tell a copy from the memory that the program carries, the loop calls a function of ours
(:mod:`wrapper_ir.emitters.fx.loops`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sympy
import torch
from torch import fx
from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.legality import is_told_apart
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.emitters.fx.calls import CallLines
from wrapper_ir.emitters.fx.graph_module import WrapperGraphModule
from wrapper_ir.emitters.fx.loops import loop_in_place, stacked_loop_in_place
from wrapper_ir.emitters.fx.region import torch_dtype
from wrapper_ir.lines.control import shared_results
from wrapper_ir.lines.expr import is_relation

_aten = torch.ops.aten
_higher_order: Final[Any] = torch.ops.higher_order

_DTYPES: Final = {
    ir.SymbolKind.INT: torch.int64,
    ir.SymbolKind.FLOAT: torch.float64,
    ir.SymbolKind.BOOL: torch.bool,
}


@dataclass(frozen=True, slots=True)
class _Graph:
    """The plan of a region's graph.

    Attributes:
        name: The name of the submodule.
        step: The region's step in a path.
        constants: The constants that it takes after its parameters.
        symbols: The symbols that it takes after those, in tensors.
        sizes: The symbols that it reads from the sizes of its parameters.
        is_loop: True if it is part of a loop that torch's op runs.
    """

    name: str
    step: str
    constants: tuple[str, ...]
    symbols: tuple[str, ...]
    sizes: Mapping[str, tuple[str, int]]
    is_loop: bool = False


class ControlLines(CallLines):
    """Renders lines with regions."""

    # Conditionals.

    @override
    def visit_cond(self, line: ir.Cond) -> None:
        branches, operands = self._branches(line)
        predicate = self._decisive(line, line.predicate)
        node = self.call(_higher_order.cond, predicate, *branches, operands)
        self._outcome(line.results, node)

    @override
    def visit_switch(self, line: ir.Switch) -> None:
        op = getattr(_higher_order, "switch", None)
        if op is None:
            self.unsupported(line, "this version of torch has no op for switches")
            return
        branches, operands = self._branches(line)
        selector = self._in_range(line)
        node = self.call(op, selector, branches, operands)
        self._outcome(line.results, node)

    def _branches(self, line: ir.Cond | ir.Switch) -> tuple[list[fx.Node], tuple[Any, ...]]:
        """Return the graphs of a line's regions, and their common operands."""
        plans = [self._planned(line, name) for name, _ in ir.regions_of(line)]
        regions = [region for _, region in ir.regions_of(line)]
        branches = list(map(self._submodule, regions, plans))
        operands = self._operands(line, regions[0].params, line.operands, plans[0])
        return branches, (*operands, *self._given(plans[0]))

    def _decisive(self, line: ir.Cond | ir.Switch, arg: ir.BufferArg | ir.ScalarArg) -> Any:
        """Return the node of a predicate or selector as a number or a 0-d tensor."""
        node = self.arg(line, arg)
        if isinstance(arg, ir.ScalarArg) or not self.layout(arg.buffer).rank:
            return node
        return self.call(_aten.as_strided.default, node, [], [])

    def _in_range(self, line: ir.Switch) -> Any:
        """Return a switch's selector clamped to the number of cases, as torch's op requires."""
        last = len(line.cases) - 1
        if isinstance(line.selector, ir.ScalarArg):
            nearest = sympy.Max(0, sympy.Min(line.selector.value, last))
            return self.arg(line, ir.ScalarArg(ir.dim(nearest)))
        selector = self._decisive(line, line.selector)
        if self.layout(line.selector.buffer).dtype is not ir.DType.INT64:
            selector = self.call(_aten.to.dtype, selector, torch.int64)
        return self.call(_aten.clamp.default, selector, 0, last)

    # Loops.

    @override
    def visit_while(self, line: ir.While) -> None:
        condition = self._planned(line, "condition")
        body = self._planned(line, "body")
        graphs = (self._submodule(line.condition, condition), self._submodule(line.body, body))
        count, params = len(line.carried), line.body.params
        carried = self._operands(line, params[:count], line.carried, body)
        captured = self._operands(line, params[count:], line.captured, body)
        captured += self._given(body)
        shared = () if body.is_loop or line.stacked else (tuple(shared_results(line)),)
        runner = _runner(line, body)
        node = self.call(runner, *graphs, tuple(carried), tuple(captured), *shared)
        if line.stacked:
            self._rounds(line, node)
        else:
            self._outcome(line.results, node)

    def _is_told_apart(self, line: ir.While) -> bool:
        program = self.context.program
        lives = Liveness(self.region, program)
        return is_told_apart(line, self.path[-1].position, self.region, lives, program)

    def _rounds(self, line: ir.While, node: fx.Node) -> None:
        """Bind the results of a loop that stacks the values of all iterations."""
        for result in line.results:
            assert isinstance(result, ir.ResultBuffer)
            position = result.path[0] if result.path else 0
            assert isinstance(position, int)
            rows = self.call(operator.getitem, node, position, name=result.out)
            dtype = self.layout(result.out).dtype
            if isinstance(line.body.params[position], ir.ScalarInput):
                rows = self.call(_aten.to.dtype, rows, torch_dtype(dtype), name=result.out)
            self.bind(result.out, rows)

    # Operands.

    def _planned(self, line: ir.RegionLine, step: str) -> _Graph:
        """Return the plan of one region's graph; all regions of a line take the same operands."""
        program = self.context.program
        regions = dict(ir.regions_of(line))
        constants = {n for region in regions.values() for n in _names(program, region)}
        symbols = set(self.symbols_of(line))
        fixed = len(line.carried) if isinstance(line, ir.While) else 0
        known = {name: _sizes(program, region) for name, region in regions.items()}
        looked_up = {s for s in symbols if all(s in sizes for sizes in known.values())}
        sizes = {s: known[step][s] for s in looked_up}
        for params in zip(*(region.params[fixed:] for region in regions.values()), strict=True):
            if all(
                isinstance(param, ir.ScalarInput) and param.symbol in region_sizes
                for param, region_sizes in zip(params, known.values(), strict=True)
            ):
                own = params[list(regions).index(step)]
                assert isinstance(own, ir.ScalarInput)
                sizes[own.symbol] = known[step][own.symbol]
        return _Graph(
            name=self.function_name(line, step),
            step=step,
            constants=tuple(n for n in program.constants if n in constants),
            symbols=tuple(sorted(symbols - looked_up)),
            sizes=sizes,
            is_loop=isinstance(line, ir.While) and not self._is_told_apart(line),
        )

    def _operands(
        self, line: ir.AnyLine, params: Sequence[ir.Input], args: Sequence[ir.Arg], graph: _Graph
    ) -> list[Any]:
        """Return the operands for the given parameters, with numbers in tensors."""
        operands = []
        for param, arg in zip(params, args, strict=True):
            if not isinstance(param, ir.ScalarInput):
                operands.append(self.arg(line, arg))
            elif param.symbol not in graph.sizes:
                kind = self._kind(param.symbol)
                operands.append(self._scalar_tensor(self.arg(line, arg), kind))
        return operands

    def _given(self, graph: _Graph) -> list[Any]:
        """Return the operands for a region's constants and symbols."""
        numbers = [self._scalar_tensor(self.symbols[s], self._kind(s)) for s in graph.symbols]
        return [*map(self.node, graph.constants), *numbers]

    def _scalar_tensor(self, value: Any, kind: ir.SymbolKind) -> fx.Node:
        cpu = torch.device("cpu")  # regardless of the default device
        return self.call(_aten.scalar_tensor.default, value, dtype=_DTYPES[kind], device=cpu)

    def _kind(self, symbol: str) -> ir.SymbolKind:
        return self.context.program.symbols[symbol].kind

    # Results.

    def _outcome(self, results: Sequence[ir.CallResult], node: fx.Node) -> None:
        """Bind the results of a conditional or loop; take numbers out of their tensors."""
        for result in results:
            position = result.path[0] if result.path else 0
            name = result.out if isinstance(result, ir.ResultBuffer) else None
            part = self.call(operator.getitem, node, position, name=name)
            if isinstance(result, ir.ResultBuffer):
                self.bind(result.out, part, self._storage_of(result))
            else:
                self._unbox(part, result.symbol)

    def _unbox(self, node: fx.Node, symbol: str) -> None:
        number = self.call(_aten.item.default, node, name=symbol)
        self.symbols[symbol] = number
        self.context.values.symbol(number, symbol)

    # Graphs of regions.

    def _submodule(self, region: ir.Region, graph: _Graph) -> fx.Node:
        """Render a region as a graph module of its own, and return its ``get_attr`` node."""
        inner = type(self)(self.context, region)
        inner.path = self.path
        inner.build_region(graph)
        inner.graph.lint()
        module = WrapperGraphModule(inner.root, inner.graph, class_name=graph.name)
        self.root.add_module(graph.name, module)
        return self.attribute(graph.name, graph.name)

    def build_region(self, graph: _Graph) -> None:
        """Build the whole graph of a region."""
        path = self.path
        self._take(graph)
        for index in range(len(self.region.body)):
            self.render(index, path.then(graph.step, index))
        if graph.step == "condition":
            self.finish(self.value(self.region.results[0]))
            return
        self.finish(tuple(map(self._left, self.region.results)))

    def _take(self, graph: _Graph) -> None:
        """Add the inputs of a region's graph, and read the symbols from them."""
        boxes: dict[str, fx.Node] = {}
        for param in self.region.params:
            if isinstance(param, ir.BufferInput):
                self.bind(param.name, self.placeholder(param.name))
            elif isinstance(param, ir.ScalarInput) and param.symbol not in graph.sizes:
                boxes[param.symbol] = self.placeholder(param.symbol)
        for name in graph.constants:
            self.bind(name, self.placeholder(name))
        for name in graph.symbols:
            boxes[name] = self.placeholder(name)
        for name, box in boxes.items():
            self._unbox(box, name)
        for name, (buffer, position) in sorted(graph.sizes.items()):
            node = self.call(_aten.sym_size.int, self.node(buffer), position, name=name)
            self.symbols[name] = node
            self.context.values.symbol(node, name)

    def _left(self, value: ir.Value) -> Any:
        """Return the node of a region's result, in the form that its graph returns."""
        node = self.value(value)
        if isinstance(value, ir.ScalarValue):
            return self._scalar_tensor(node, self._kind_of(value.value))
        return node

    def _kind_of(self, value: ir.Scalar) -> ir.SymbolKind:
        """Return whether the value of an expression is an integer, a float or a boolean."""
        if isinstance(value, sympy.Symbol):
            return self._kind(value.name)
        if isinstance(value, bool) or (isinstance(value, sympy.Basic) and is_relation(value)):
            return ir.SymbolKind.BOOL
        if isinstance(value, int):
            return ir.SymbolKind.INT
        try:
            ir.dim(value)
        except ir.UnsupportedExprError:
            return ir.SymbolKind.FLOAT
        return ir.SymbolKind.INT


def _runner(line: ir.While, body: _Graph) -> Any:
    """Return the op or function that runs a loop."""
    if not body.is_loop:
        return stacked_loop_in_place if line.stacked else loop_in_place
    return _higher_order.while_loop_stack_output if line.stacked else _higher_order.while_loop


def _sizes(program: ir.Program, region: ir.Region) -> dict[str, tuple[str, int]]:
    """Return the symbols that are sizes of parameters, each with the parameter and dimension."""
    sizes: dict[str, tuple[str, int]] = {}
    for param in region.params:
        if isinstance(param, ir.BufferInput):
            for position, size in enumerate(program.layout(param.name).size):
                if isinstance(size, sympy.Symbol):
                    sizes.setdefault(size.name, (param.name, position))
    return sizes


def _names(program: ir.Program, region: ir.Region) -> Iterator[str]:
    """Yield every buffer that a region mentions, including nested regions."""
    for line in region.body:
        yield from ir.effects(line, program).touched
        for _, inner in ir.regions_of(line):
            yield from _names(program, inner)
    for value in region.results:
        if isinstance(value, ir.BufferValue):
            yield value.buffer
