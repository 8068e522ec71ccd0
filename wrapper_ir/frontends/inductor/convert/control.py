"""Branches, loops and called subgraphs: nodes that Inductor writes as text around their lines.

Inductor lowers a branch or a loop body as a graph of its own, which shares symbols with the graph
around it. A region sees those symbols too, so numbers are passed only where a loop changes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir import lines
from wrapper_ir.build.draft import at_start
from wrapper_ir.frontends.common.ops import call_of
from wrapper_ir.frontends.common.regions import RegionDraft, copied, passed, relaid
from wrapper_ir.frontends.inductor.compat import Choice, V, choice_of, ir
from wrapper_ir.frontends.inductor.convert.operators import convert_results, to_arg
from wrapper_ir.frontends.inductor.convert.state import Scope
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.untried import check_branches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_NEITHER: Final = "it is neither a tensor nor a number"


def convert_control(scope: Scope, node: Any) -> None:
    """Convert a node that holds subgraphs."""
    choice = choice_of(node)
    if choice is not None:
        _choice(scope, node, choice)
    elif isinstance(node, ir.WhileLoop):
        _while(scope, node)
    elif isinstance(node, ir.SubgraphBuffer):
        _chosen(scope, node)
    else:
        _call(scope, node)


def _choice(scope: Scope, node: Any, choice: Choice) -> None:
    names = [branch.name for branch in choice.branches]
    check_branches(scope.graph.module.graph, names, is_cond=choice.is_cond)
    origin = scope.origin(node)
    args = [_operand(scope, item, origin) for item in node.operands]
    selector = _selector(scope, choice.selector, origin, is_cond=choice.is_cond)
    branches = [convert_region(scope, branch.graph, args) for branch in choice.branches]
    for branch in branches:
        branch.own_results()
    order = [i for i, param in enumerate(branches[0].params) if param is not None]
    results = _results(scope, node, branches[0].results, _outputs(node))
    for branch in branches:
        _lay_out(scope, branch, results)
    operands = passed(args, order, set().union(*(branch.written for branch in branches)))
    regions = tuple(branch.region(order) for branch in branches)
    if choice.is_cond:
        scope.emit(lines.Cond(results, selector, operands, *regions, origin=origin))
    else:
        scope.emit(lines.Switch(results, selector, operands, regions, origin=origin))


def _selector(
    scope: Scope, node: Any, origin: int | None, *, is_cond: bool
) -> lines.BufferArg | lines.ScalarArg:
    """Return the selector: a bool or a condition between two branches, an integer among many."""
    operand = _operand(scope, node, origin)
    if isinstance(operand, lines.ScalarArg):
        return lines.ScalarArg(_truth(operand.value)) if is_cond else operand
    if not isinstance(operand, lines.BufferArg):
        raise UnsupportedLineError("selector", type(node).__name__, _NEITHER)
    layout = scope.layout(operand.buffer)
    if layout.dtype in ((lines.DType.BOOL,) if is_cond else lines.SELECTOR_TYPES):
        return operand
    if not is_cond:
        why = f"it is {layout.dtype.torch_name}, but a switch takes an integer"
        raise UnsupportedLineError("selector", operand.buffer, why)
    truth = lines.Layout(lines.DType.BOOL, layout.device, layout.size, layout.stride)
    name = scope.draft.fresh(f"{operand.buffer}_truth")
    result = lines.ResultBuffer(scope.define(name, truth))
    args = (operand, lines.ScalarArg(0))
    op, device = torch.ops.aten.ne.Scalar, layout.device
    scope.emit(call_of(scope.draft, op, args, results=(result,), device=device, origin=origin))
    return lines.BufferArg(result.out)


def _while(scope: Scope, node: Any) -> None:
    origin = scope.origin(node)
    inputs = (*node.carried_inputs, *node.additional_inputs)
    count, stacks = len(node.carried_inputs), bool(node.stack_output)
    operands = [_operand(scope, item, origin) for item in inputs]
    condition = convert_region(scope, node.cond_subgraph.graph, operands, count)
    body = convert_region(scope, node.body_subgraph.graph, operands, count)
    # A carried value that the body returns unchanged is loop-invariant.
    invariant = [i for i in range(count) if _gives_back(body, i) and not stacks]
    carried = [i for i in range(count) if i not in invariant]
    captured = [*invariant, *range(count, len(inputs))]
    captured = [i for i in captured if body.params[i] is not None]
    outputs = _outputs(node)
    body.results = [body.results[i] for i in carried]
    body.own_results()
    condition.own_results()
    condition.results = [
        lines.ScalarValue(_truth(value.value)) if isinstance(value, lines.ScalarValue) else value
        for value in condition.results
    ]
    changing = {n: outputs[i] for n, i in enumerate(carried) if i in outputs}
    results = _results(scope, node, body.results, changing, dict(enumerate(carried)))
    _lay_out(scope, body, results, stacked=stacks)
    written = condition.written | body.written
    scope.emit(
        lines.While(
            results=results,
            carried=passed(operands, carried, written),
            captured=passed(operands, captured, written),
            condition=condition.region([*carried, *captured]),
            body=body.region([*carried, *captured]),
            stacked=stacks,
            origin=origin,
        )
    )
    for i in invariant:
        _keep(scope, node, i, operands[i], origin)


def _keep(scope: Scope, node: Any, position: int, operand: lines.Arg, origin: int | None) -> None:
    """Name a loop-invariant result that is an operand, if anything uses it.

    It becomes a copy, because Inductor assumes that it has storage of its own.
    """
    name = scope.leaves.get(node.get_name(), {}).get((position,))
    if name is not None and isinstance(operand, lines.BufferArg):
        scope.alias(name, copied(scope.draft, operand.buffer, origin=origin))


def _call(scope: Scope, node: Any) -> None:
    operands = [_operand(scope, item) for item in node.inputs]
    graph = node.subgraph.graph
    results = inline_subgraph(scope, graph, operands)
    leaves = scope.leaves.get(node.get_name(), {})
    for path, name in leaves.items():
        value = results[int(path[0])]
        if isinstance(value, lines.BufferValue):
            scope.alias(name, value.buffer)
            # Inductor gives the result an offset, but treats it as a buffer without one.
            offset = scope.graph.get_buffer(name).get_layout().offset
            scope.count_from(name, scope.dim(offset))


def _chosen(scope: Scope, node: Any) -> None:
    """Convert a graph of ops that tuning chose for one op."""
    graph = node.subgraph
    numbers = (graph.graph_inputs[name] for name in node.sym_inputs)
    operands: list[lines.Arg] = [lines.ScalarArg(scope.scalar(number)) for number in numbers]
    operands += [_operand(scope, item) for item in node.inputs]
    (value,) = inline_subgraph(scope, graph, operands)
    if isinstance(value, lines.BufferValue):
        scope.alias(node.get_name(), value.buffer)


def _operand(scope: Scope, node: Any, origin: int | None = None) -> lines.Arg:
    """Return the argument for a node."""
    arg = to_arg(scope, node, origin)
    if arg is None:
        raise UnsupportedLineError("operand of a subgraph", type(node).__name__, _NEITHER)
    return arg


def _results(
    scope: Scope,
    node: Any,
    values: Sequence[lines.Value],
    outputs: Mapping[int, Any],
    positions: Mapping[int, int] | None = None,
) -> tuple[lines.CallResult, ...]:
    """Define the results of a choice or loop, under Inductor's names where there are any."""
    results: list[lines.CallResult] = []
    count = sum(not isinstance(value, lines.NoneValue) for value in values)
    for position, value in enumerate(values):
        if isinstance(value, lines.NoneValue):
            continue
        if not isinstance(value, lines.BufferValue):
            raise UnsupportedLineError(type(node).__name__, node.get_name(), "a result is a number")
        output = outputs.get(position)
        like = scope.layout(value.buffer) if output is None else scope.to_layout(output.layout)
        name = f"{node.get_name()}_{position}" if output is None else output.get_name()
        place = position if positions is None else positions[position]
        scope.leaves.setdefault(node.get_name(), {})[(place,)] = name
        path = () if count == len(values) == 1 else (position,)
        results.append(lines.ResultBuffer(scope.define(name, at_start(like)), path))
    return tuple(results)


def _lay_out(
    scope: Scope, region: RegionDraft, results: Sequence[lines.CallResult], *, stacked: bool = False
) -> None:
    """Lay out the results of a region as those of its line, which may stack its rounds."""
    layouts: list[lines.Layout | None] = []
    outer = iter(results)
    for value in region.results:
        result = None if isinstance(value, lines.NoneValue) else next(outer, None)
        layout = scope.layout(result.out) if isinstance(result, lines.ResultBuffer) else None
        if layout is not None and stacked:
            layout = replace(layout, size=layout.size[1:], stride=layout.stride[1:])
        layouts.append(layout if layout is not None and _is_visible(scope, layout) else None)
    region.lay_out(layouts)


def _outputs(node: Any) -> dict[int, Any]:
    """Return the nodes of the results, by position."""
    outputs = [each for each in node.outputs or () if isinstance(each, ir.MultiOutput)]
    return {int(output.indices[-1][1]): output for output in outputs}


def _truth(value: Any) -> Any:
    """Return a number as a condition: true if it is not zero."""
    if isinstance(value, sympy.Expr):
        return sympy.Ne(value, 0)
    return bool(value) if isinstance(value, (int, float)) else value


# Inductor's subgraphs as regions: parameters, results, and what they write to.


def convert_region(
    outer: Scope, graph: Any, operands: list[lines.Arg], carried: int = 0
) -> RegionDraft:
    """Convert a subgraph whose first ``carried`` operands are carried by a loop.

    Operands that Inductor lays out by another expression inside are replaced by views.
    """
    with outer.draft.region():
        scope = _inner_scope(outer, graph)
        with V.set_graph_handler(graph):
            names = zip(graph.graph_input_names, operands, strict=True)
            pairs = enumerate(names)
            params = [_param(scope, *pair, is_passed=n < carried) for n, pair in pairs]
            scope.shared.convert_lines(scope, _wrapper_of(graph))
            results = convert_results(scope, graph.wrapper_code.get_graph_outputs())
    with outer.draft.region(outer.body):
        for position, (param, operand) in enumerate(zip(params, operands, strict=True)):
            if isinstance(param, lines.BufferInput) and isinstance(operand, lines.BufferArg):
                wanted = scope.layout(param.name)
                if _is_visible(outer, wanted):
                    view = relaid(outer.draft, operand.buffer, wanted)
                    operands[position] = replace(operand, buffer=view)
    return RegionDraft(scope.draft, scope.body, params, list(results))


def _is_visible(scope: Scope, layout: lines.Layout) -> bool:
    """Return whether all symbols in a layout are bound in a scope."""
    return layout.symbols <= scope.bound


def _param(scope: Scope, name: str, operand: lines.Arg, *, is_passed: bool) -> lines.Input | None:
    """Return the region's parameter for an operand, or None if it is not passed."""
    value = scope.graph.graph_inputs.get(name)
    if isinstance(operand, lines.BufferArg):
        if not isinstance(value, ir.TensorBox):
            raise _unknown(name, value)
        _learn_shape(scope, value, scope.layout(operand.buffer))
        param = scope.define(name, at_start(scope.to_layout(value.get_layout())))
        scope.lent.add(param)
        return lines.BufferInput(param)
    if not isinstance(operand, lines.ScalarArg):
        return None
    if not is_passed:
        _learn(scope, value, operand.value)
        return None
    is_real = getattr(value, "is_integer", True) is False
    kind = lines.SymbolKind.FLOAT if is_real else lines.SymbolKind.INT
    symbol = scope.bind_fresh(name, kind)
    if isinstance(value, sympy.Symbol):
        scope.known[value] = sympy.Symbol(symbol, **value.assumptions0)
        scope.bound.add(value.name)
    elif not isinstance(value, (int, sympy.Integer)):
        raise _unknown(name, value)
    return lines.ScalarInput(symbol)


def _gives_back(region: RegionDraft, position: int) -> bool:
    """Return whether the result at a position is the parameter at that position."""
    value, param = region.results[position], region.params[position]
    if not isinstance(value, lines.BufferValue) or not isinstance(param, lines.BufferInput):
        return False
    return value.buffer == param.name


def inline_subgraph(outer: Scope, graph: Any, operands: Sequence[lines.Arg]) -> list[lines.Value]:
    """Convert a subgraph's lines in place of its call, and return its results."""
    scope = _inner_scope(outer, graph)
    scope.held, scope.is_region = outer.held, outer.is_region
    with V.set_graph_handler(graph):
        for name, operand in zip(graph.graph_input_names, operands, strict=True):
            value = graph.graph_inputs.get(name)
            if isinstance(operand, lines.BufferArg):
                _learn_shape(scope, value, scope.layout(operand.buffer))
                scope.alias(name, operand.buffer)
                scope.lent.add(outer.draft.owner(operand.buffer))
            elif isinstance(operand, lines.ScalarArg):
                _learn(scope, value, operand.value)
            elif isinstance(operand, lines.ObjectArg):
                scope.objects[name] = operand.object
        scope.shared.convert_lines(scope, _wrapper_of(graph))
        results = convert_results(scope, graph.wrapper_code.get_graph_outputs())
    outer.bound |= scope.bound
    outer.known = {**scope.known, **outer.known}
    names = [value.buffer for value in results if isinstance(value, lines.BufferValue)]
    for name in names:
        outer.alias(name, name)
    outer.lent |= _shared_roots(outer, names, operands)
    return list(results)


def _shared_roots(outer: Scope, names: Sequence[str], operands: Sequence[lines.Arg]) -> set[str]:
    """Return the storages that a subgraph's results share with each other or with an operand."""
    owner = outer.draft.owner
    roots = [owner(name) for name in names]
    of_operands = {owner(arg.buffer) for arg in operands if isinstance(arg, lines.BufferArg)}
    return {root for root in roots if root in of_operands or roots.count(root) > 1}


def _wrapper_of(graph: Any) -> Any:
    """Return the wrapper of a subgraph, which must be ours: Inductor's own takes no notes."""
    wrapper = graph.wrapper_code
    if not hasattr(wrapper, "control_notes"):
        why = f"its wrapper is a {type(wrapper).__name__}, not ours"
        raise UnsupportedLineError("subgraph", str(graph.name), why)
    return wrapper


def _inner_scope(outer: Scope, graph: Any) -> Scope:
    outer.draft.reserved.update(graph.name_to_buffer, graph.constants)
    return Scope(outer.shared, graph, outer)


def _learn_shape(scope: Scope, value: Any, layout: lines.Layout) -> None:
    """Bind the symbols in an input's sizes and strides to the values outside."""
    inside = (*value.get_size(), *value.get_stride())
    for inner, actual in zip(inside, (*layout.size, *layout.stride), strict=True):
        _learn(scope, inner, actual)


def _learn(scope: Scope, inner: Any, outer: Any) -> None:
    """Bind a symbol that is known only inside the region to its value outside."""
    if isinstance(inner, sympy.Symbol) and inner.name not in scope.bound:
        scope.known[inner] = sympy.sympify(outer)
        scope.bound.add(inner.name)


def _unknown(name: str, value: Any) -> UnsupportedLineError:
    text, why = f"{name}: {type(value).__name__}", f"{_NEITHER} that a region can take"
    return UnsupportedLineError("input of a subgraph", text, why)
