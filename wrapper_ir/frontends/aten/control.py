"""Higher-order ops: choices and loops as regions, wrappers inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from wrapper_ir.frontends.aten.calls import expected_of
from wrapper_ir.frontends.aten.functionalized import auto_functionalized
from wrapper_ir.frontends.aten.regions import RegionBuilder, operand
from wrapper_ir.frontends.aten.state import SYMBOLIC, Ref, UnsupportedNodeError
from wrapper_ir.frontends.aten.unbacked import bind_unbacked, bindings_of, kind_of
from wrapper_ir.lines.args import (
    Arg,
    BufferArg,
    BufferValue,
    CallResult,
    NoneValue,
    ResultBuffer,
    ResultSymbol,
    Value,
)
from wrapper_ir.lines.control import SELECTOR_TYPES, Cond, Region, Switch, While
from wrapper_ir.lines.layout import Layout

if TYPE_CHECKING:
    from torch.fx import Node

    from wrapper_ir.frontends.aten.graph import GraphWalk

__all__ = ["HIGHER_ORDER"]

Results: TypeAlias = tuple[CallResult, ...]


def _cond(walk: GraphWalk, node: Node) -> Any:
    predicate, then, orelse, *rest = (walk.value(arg) for arg in node.args)

    def line(results: Results, operands: tuple[Arg, ...], regions: list[Region]) -> Cond:
        return Cond(results, operand(predicate), operands, *regions)

    return _choice(walk, node, (then, orelse), tuple(rest[0]) if rest else (), line)


def _switch(walk: GraphWalk, node: Node) -> Any:
    given, cases, *rest = (walk.value(arg) for arg in node.args)
    selector = operand(given)

    def line(results: Results, operands: tuple[Arg, ...], regions: list[Region]) -> Switch:
        return Switch(results, selector, operands, tuple(regions))

    if isinstance(selector, BufferArg):
        dtype = walk.state.buffers[selector.buffer].dtype
        if dtype not in SELECTOR_TYPES:
            raise UnsupportedNodeError(f"what it chooses by is {dtype.torch_name}, not an integer")
    return _choice(walk, node, cases, tuple(rest[0]) if rest else (), line)


def _choice(
    walk: GraphWalk,
    node: Node,
    graphs: Sequence[Any],
    given: tuple[Any, ...],
    line: Callable[[Results, tuple[Arg, ...], list[Region]], Cond | Switch],
) -> Any:
    """Convert a choice between graphs into a line, which ``line`` makes, and return its value."""
    builder = RegionBuilder(walk, node, given)
    built = [builder.build(graph) for graph in graphs]
    whole = node.meta.get("val")
    results, value = _defined(walk, node, whole, built[0].region.results)
    for each in built:
        builder.finish(each, results)
    made = line(results, builder.operands(*built), [each.region for each in built])
    walk.emit(replace(made, origin=walk.state.origin(node)))
    _bind_sizes(walk, node, value)
    return value


def _while(walk: GraphWalk, node: Node) -> Any:
    condition, body, carried, captured = (walk.value(arg) for arg in node.args)
    whole = node.meta.get("val")
    if isinstance(whole, (list, tuple)) and len(whole) == len(carried):
        pairs = zip(carried, whole, strict=True)
        carried = tuple(_laid_out(walk, node, item, like) for item, like in pairs)
    builder = RegionBuilder(walk, node, (*carried, *captured), carried=len(carried))
    first, second = builder.build(condition), builder.build(body)
    results, value = _defined(walk, node, whole, second.region.results)
    builder.finish(second, results)
    operands = builder.operands(first, second)
    walk.emit(
        While(
            results=results,
            carried=operands[: len(carried)],
            captured=operands[len(carried) :],
            condition=first.region,
            body=second.region,
            origin=walk.state.origin(node),
        )
    )
    _bind_sizes(walk, node, value)
    return value


def _laid_out(walk: GraphWalk, node: Node, value: Any, like: Any) -> Any:
    """Return a value that a loop carries in the layout in which it goes round."""
    if not isinstance(value, Ref) or not isinstance(like, torch.Tensor):
        return value
    have, wanted = walk.state.buffers[value.name], walk.state.layout_of(like)
    if have.size != wanted.size or have.stride == wanted.stride:
        return value
    return RegionBuilder.copied(walk, node, value, wanted)


def _defined(
    walk: GraphWalk, node: Node, whole: Any, inner: Sequence[Value]
) -> tuple[tuple[CallResult, ...], list[Any]]:
    """Define the results of a choice or a loop; also return them as the node's value."""
    expected = expected_of(node)
    values = list(whole) if isinstance(whole, (list, tuple)) else [whole]
    if whole is None:
        values = [None] * len(inner)  # what a region gives tells as much
    if len(values) != len(inner):
        raise UnsupportedNodeError("it gives another number of results than its graphs")
    results: list[CallResult] = []
    given: list[Any] = []
    count = sum(not isinstance(value, NoneValue) for value in inner)
    for index, (value, inside) in enumerate(zip(values, inner, strict=True)):
        path = () if count == 1 and len(values) == 1 else (index,)
        wanted = expected.names.get((index,)) or f"{node.name}_{index}"
        if isinstance(inside, NoneValue):
            given.append(None)
        elif isinstance(inside, BufferValue):
            name = _buffer(walk, wanted, value, inside)
            results.append(ResultBuffer(name, path))
            given.append(Ref(name))
        else:
            symbol = _symbol(walk, node, index, value)
            results.append(ResultSymbol(symbol, path))
            given.append(walk.state.symbol(symbol))
    return tuple(results), given


def _buffer(walk: GraphWalk, wanted: str, value: Any, inside: BufferValue) -> str:
    """Define a result laid out as torch says, or else as what a region gives."""
    if isinstance(value, torch.Tensor):
        return walk.state.define(wanted, value)
    like = walk.state.buffers[inside.buffer]
    layout = Layout(like.dtype, like.device, like.size, like.stride)
    return walk.state.define_like(wanted, layout)


def _symbol(walk: GraphWalk, node: Node, index: int, value: Any) -> str:
    for binding in bindings_of(node):
        if binding.path in ((index,), ()) and not binding.keys:
            return walk.state.bind(binding.symbol, kind_of(value), unbacked=True)
    name = walk.state.bind_fresh(f"{node.name}_{index}", kind_of(value))
    if isinstance(value, SYMBOLIC):
        expr = value.node.expr
        if expr.is_Symbol and expr.name not in walk.state.symbols:
            walk.state.known[expr.name] = walk.state.symbol(name)
    return name


def _bind_sizes(walk: GraphWalk, node: Node, value: list[Any]) -> None:
    bindings = bindings_of(node)
    bind_unbacked(walk, node, bindings, {(i,): leaf for i, leaf in enumerate(value)})


def _inlined(position: int) -> Convert:
    """Return what converts an op that calls a graph, its argument at ``position``, on the rest."""

    def convert(walk: GraphWalk, node: Node) -> Any:
        module, *given = (walk.value(arg) for arg in node.args[position:])
        if position == 0 and given and isinstance(given[0], str):
            given = given[1:]  # the name of the region
        return walk.inline(node, module, given)

    return convert


def _tracepoint(walk: GraphWalk, node: Node) -> Any:
    return [walk.value(arg) for arg in node.args]


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
    "_export_tracepoint": _tracepoint,
    "auto_functionalized_v2": auto_functionalized,
}
