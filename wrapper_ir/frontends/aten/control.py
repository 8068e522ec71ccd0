"""Higher-order ops. Conditionals and loops become isolated regions; wrappers are inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir import lines
from wrapper_ir.build.draft import at_start
from wrapper_ir.frontends.aten.calls import auto_functionalized, expected_of
from wrapper_ir.frontends.aten.numbers import bind_unbacked, kind_of, noted_by
from wrapper_ir.frontends.aten.sources import completed
from wrapper_ir.frontends.aten.state import POISON, GraphWalk, Ref, UnsupportedNodeError, as_graph
from wrapper_ir.frontends.common.ops import SYMBOLIC
from wrapper_ir.frontends.common.regions import RegionDraft, copied, passed, relaid
from wrapper_ir.lines.expr import is_relation

if TYPE_CHECKING:
    from torch.fx import Node


def operand(value: Any) -> lines.BufferArg | lines.ScalarArg:
    """Return a value as an operand of a region."""
    if isinstance(value, Ref):
        return lines.BufferArg(value.name, lines.Access.READ)
    if isinstance(value, (bool, int, float, sympy.Basic)):
        return lines.ScalarArg(value)
    raise UnsupportedNodeError(f"a value of type {type(value).__name__} cannot enter a region")


def to_value(value: Any) -> lines.Value:
    """Return a value as a result of a program or a region."""
    if value is None:
        return lines.NoneValue()
    if isinstance(value, Ref):
        return lines.BufferValue(value.name)
    if isinstance(value, (bool, int, float, complex, sympy.Basic)):
        return lines.ScalarValue(value)
    raise UnsupportedNodeError(f"a result of type {type(value).__name__} cannot be expressed")


class RegionBuilder:
    """Builder of the regions of one line.

    Numbers are not passed, because regions see the symbols bound before them. The values that a
    loop carries, the first ``carried`` ones of the operands ``given``, are always passed.
    """

    def __init__(self, walk: GraphWalk, node: Node, given: Sequence[Any], carried: int = 0) -> None:
        self._walk = walk
        self._node = node
        self._given = tuple(given)
        self._passed = [n for n, v in enumerate(given) if n < carried or isinstance(v, Ref)]

    def build(self, module: Any) -> RegionDraft:
        """Convert a graph into a region."""
        state = self._walk.state
        module = completed(as_graph(module))
        places = [n for n in module.graph.nodes if n.op == "placeholder"]
        if len(places) != len(self._given):
            raise UnsupportedNodeError("it passes a graph the wrong number of arguments")
        known = dict(state.known)
        params: list[lines.Input | None] = []
        pairs = enumerate(zip(places, self._given, strict=True))
        inside = [self._param(n, place, value, params) for n, (place, value) in pairs]
        problems = len(state.problems)
        with state.draft.region() as body:
            out = self._walk.inline(module, inside)
            values = list(out) if isinstance(out, (list, tuple)) else [out]
            if len(state.problems) > problems or any(value is POISON for value in values):
                raise UnsupportedNodeError("its graph has nodes that cannot be converted")
            built = RegionDraft(state.draft, body, params, list(map(to_value, values)))
            built.own_results(lambda: state.origin(self._node))
        state.known = known
        return built

    def _param(
        self, position: int, place: Node, value: Any, params: list[lines.Input | None]
    ) -> Any:
        """Define the parameter of a placeholder and return its value inside the region."""
        state = self._walk.state
        known = place.meta.get("val")
        if position not in self._passed:
            self._learn(known, value)
            params.append(None)
            return value
        if isinstance(value, Ref):
            outer = state.draft.buffers[value.name]
            if isinstance(known, torch.Tensor):
                for size, given in zip(known.shape, outer.size, strict=True):
                    self._learn(size, given)
            start = state.start_of(known) if isinstance(known, torch.Tensor) else 0
            name = state.define_like(place.name, at_start(outer), start)
            params.append(lines.BufferInput(name))
            return Ref(name)
        kind = lines.SymbolKind.FLOAT if isinstance(value, float) else lines.SymbolKind.INT
        kind = lines.SymbolKind.BOOL if is_relation(value) else kind
        symbol = state.bind_fresh(place.name, kind)
        params.append(lines.ScalarInput(symbol))
        self._learn(known, state.draft.symbol(symbol))
        return state.draft.symbol(symbol)

    def _learn(self, inner: Any, outer: Any) -> None:
        """Record the value outside the region of torch's symbol inside it."""
        if isinstance(inner, SYMBOLIC):
            expr = inner.node.expr
            if self._walk.state.is_new(expr) and isinstance(outer, (int, float, sympy.Basic)):
                self._walk.state.known[expr.name] = outer

    def finish(self, built: RegionDraft, results: Sequence[lines.CallResult]) -> None:
        """Copy a region's results into the layouts of the line's results if they differ."""
        outer = iter(results)
        for position, value in enumerate(built.results):
            if isinstance(value, lines.NoneValue):
                continue
            wanted = next(outer)
            if isinstance(value, lines.BufferValue) and isinstance(wanted, lines.ResultBuffer):
                layout = self._walk.state.draft.buffers[wanted.out]
                built.results[position] = self._conformed(built, value, layout)

    def _conformed(
        self, built: RegionDraft, value: lines.BufferValue, wanted: lines.Layout
    ) -> lines.BufferValue:
        state = self._walk.state
        if all(map(state.is_bound, (*wanted.size, *wanted.stride))):
            with state.draft.region(built.body):
                value = lines.BufferValue(relaid(state.draft, value.buffer, wanted))
        have = state.draft.buffers[value.buffer]
        is_same = have.stride == wanted.stride or have.size != wanted.size
        if is_same or not all(map(state.is_bound, wanted.stride)):
            return value
        with state.draft.region(built.body):
            return lines.BufferValue(
                copied(state.draft, value.buffer, wanted, state.origin(self._node))
            )

    def operands(self, *regions: RegionDraft) -> tuple[lines.Arg, ...]:
        """Return the operands of the line, passed for writing if a region writes them."""
        given: dict[int, lines.Arg] = {n: operand(self._given[n]) for n in self._passed}
        return passed(given, given, set().union(*(built.written for built in regions)))

    def region(self, built: RegionDraft) -> lines.Region:
        """Return the finished region."""
        return built.region(self._passed)


# Higher-order ops.


def _cond(walk: GraphWalk, node: Node) -> Any:
    predicate, then, orelse, *rest = walk.value(node.args)
    return _choice(walk, node, lines.Cond, operand(predicate), (then, orelse), *rest)


def _switch(walk: GraphWalk, node: Node) -> Any:
    given, cases, *rest = walk.value(node.args)
    selector = operand(given)
    if isinstance(selector, lines.BufferArg):
        dtype = walk.state.draft.buffers[selector.buffer].dtype
        if dtype not in lines.SELECTOR_TYPES:
            raise UnsupportedNodeError(f"its selector is {dtype.torch_name}, not an integer")
    return _choice(walk, node, lines.Switch, selector, cases, *rest)


def _choice(
    walk: GraphWalk,
    node: Node,
    line: type[lines.Cond | lines.Switch],
    selector: lines.BufferArg | lines.ScalarArg,
    graphs: Sequence[Any],
    given: Sequence[Any] = (),
) -> Any:
    """Convert a conditional into a line and return its value."""
    builder = RegionBuilder(walk, node, given)
    built = [builder.build(graph) for graph in graphs]
    results, value = _defined(walk, node, node.meta.get("val"), built[0].results)
    for each in built:
        builder.finish(each, results)
    operands, regions = builder.operands(*built), tuple(map(builder.region, built))
    origin = walk.state.origin(node)
    if line is lines.Cond:
        walk.emit(lines.Cond(results, selector, operands, *regions, origin=origin))
    else:
        walk.emit(lines.Switch(results, selector, operands, regions, origin=origin))
    _bind_sizes(walk, node, value)
    return value


def _while(walk: GraphWalk, node: Node) -> Any:
    condition, body, carried, captured = walk.value(node.args)
    whole = node.meta.get("val")
    if isinstance(whole, (list, tuple)) and len(whole) == len(carried):
        pairs = zip(carried, whole, strict=True)
        carried = tuple(_laid_out(walk, node, item, like) for item, like in pairs)
    builder = RegionBuilder(walk, node, (*carried, *captured), carried=len(carried))
    first, second = builder.build(condition), builder.build(body)
    results, value = _defined(walk, node, whole, second.results)
    builder.finish(second, results)
    operands = builder.operands(first, second)
    walk.emit(
        lines.While(
            results=results,
            carried=operands[: len(carried)],
            captured=operands[len(carried) :],
            condition=builder.region(first),
            body=builder.region(second),
            origin=walk.state.origin(node),
        )
    )
    _bind_sizes(walk, node, value)
    return value


def _laid_out(walk: GraphWalk, node: Node, value: Any, like: Any) -> Any:
    """Return a loop's carried value in the layout that the loop carries it in."""
    if not isinstance(value, Ref) or not isinstance(like, torch.Tensor):
        return value
    have, wanted = walk.state.draft.buffers[value.name], walk.state.layout_of(like)
    if have.size != wanted.size or have.stride == wanted.stride:
        return value
    return Ref(copied(walk.state.draft, value.name, wanted, walk.state.origin(node)))


def _defined(
    walk: GraphWalk, node: Node, whole: Any, inner: Sequence[lines.Value]
) -> tuple[tuple[lines.CallResult, ...], list[Any]]:
    """Define the results of a conditional or a loop. Return them, and the node's value."""
    expected = expected_of(node)
    values = list(whole) if isinstance(whole, (list, tuple)) else [whole]
    if whole is None:
        values = [None] * len(inner)  # the region's results are enough
    if len(values) != len(inner):
        raise UnsupportedNodeError("its number of results differs from its graphs'")
    results: list[lines.CallResult] = []
    given: list[Any] = []
    is_single = len(values) == 1
    for index, (value, inside) in enumerate(zip(values, inner, strict=True)):
        path = () if is_single else (index,)
        wanted = expected.names.get((index,)) or f"{node.name}_{index}"
        if isinstance(inside, lines.NoneValue):
            given.append(None)
        elif isinstance(inside, lines.BufferValue):
            name = _buffer(walk, wanted, value, inside)
            results.append(lines.ResultBuffer(name, path))
            given.append(Ref(name))
        else:
            symbol = _symbol(walk, node, index, value)
            results.append(lines.ResultSymbol(symbol, path))
            given.append(walk.state.draft.symbol(symbol))
    return tuple(results), given


def _buffer(walk: GraphWalk, wanted: str, value: Any, inside: lines.BufferValue) -> str:
    """Define a result with torch's layout, or else with that of the region's result."""
    if isinstance(value, torch.Tensor):
        return walk.state.define(wanted, value)
    like = walk.state.draft.buffers[inside.buffer]
    return walk.state.define_like(wanted, at_start(like))


def _symbol(walk: GraphWalk, node: Node, index: int, value: Any) -> str:
    for binding in noted_by(node):
        if binding.path in ((index,), ()) and not binding.keys:
            return walk.state.bind(binding.name, kind_of(value), unbacked=True)
    name = walk.state.bind_fresh(f"{node.name}_{index}", kind_of(value))
    if isinstance(value, SYMBOLIC):
        expr = value.node.expr
        if walk.state.is_new(expr):
            walk.state.known[expr.name] = walk.state.draft.symbol(name)
    return name


def _bind_sizes(walk: GraphWalk, node: Node, value: list[Any]) -> None:
    bind_unbacked(walk, node, {(i,): leaf for i, leaf in enumerate(value)})


def _inlined(position: int) -> Convert:
    """Return the converter of an op that calls the graph at ``position`` on the later arguments."""

    def convert(walk: GraphWalk, node: Node) -> Any:
        module, *given = walk.value(node.args[position:])
        if position == 0 and given and isinstance(given[0], str):
            given = given[1:]  # the name of the region
        return walk.inline(module, given)

    return convert


Convert = Callable[["GraphWalk", "Node"], Any]

#: Higher-order ops by name.
HIGHER_ORDER: Final[Mapping[str, Convert]] = {
    "cond": _cond,
    "switch": _switch,
    "while_loop": _while,
    "wrap_with_set_grad_enabled": _inlined(1),
    "wrap": _inlined(0),
    "invoke_subgraph": _inlined(0),
    "tag_activation_checkpoint": _inlined(0),
    "_export_tracepoint": lambda walk, node: walk.value(node.args),
    "auto_functionalized_v2": auto_functionalized,
}
