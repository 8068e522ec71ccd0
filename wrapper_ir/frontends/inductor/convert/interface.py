"""The border of a region: what comes in, what goes out."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch
from sympy.core.numbers import Infinity, NaN, NegativeInfinity

from wrapper_ir.build.draft import metadata_of
from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.convert.arguments import object_input, to_arg
from wrapper_ir.frontends.inductor.convert.values import op_called
from wrapper_ir.frontends.inductor.differences import gives_data
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.args import (
    BufferArg,
    BufferValue,
    NoneArg,
    NoneValue,
    ScalarArg,
    ScalarValue,
    Value,
)
from wrapper_ir.lines.control import BufferInput, Input, ScalarInput
from wrapper_ir.lines.program import SymbolInfo, SymbolKind
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, BindSymbol

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from torch.fx import Node

    from wrapper_ir.frontends.inductor.convert.state import Scope

#: What sympy makes of a float.
_FLOATS = (sympy.Float, Infinity, NegativeInfinity, NaN)


def convert_inputs(
    scope: Scope, left_out: Container[int] = (), *, donates: bool = True
) -> tuple[Input, ...]:
    """Return the inputs in the caller's order, and bind the symbols found in their shapes.

    Args:
        scope: Where they come in.
        left_out: Positions of inputs that the program does not get.
        donates: Whether to believe that the caller gives up what Inductor calls donated.

    Raises:
        UnsupportedLineError: An input is neither a tensor, a number nor an object.
    """
    graph = scope.graph
    names = [n for i, n in enumerate(graph.graph_input_names) if i not in left_out]
    values = [(name, graph.graph_inputs.get(name)) for name in names]
    originals = graph.graph_inputs_original
    donated = {scope.name(n) for n, v in originals.items() if isinstance(v, ir.DonatedBuffer)}
    if not donates:
        scope.lent |= donated
    inputs = tuple(_input(scope, name, value, donated) for name, value in values)
    replaced = replaced_inputs(graph)
    layouts = {
        scope.name(name): (
            layout_at_entry(replaced[name]) if name in replaced else value.get_layout()
        )
        for name, value in values
        if isinstance(value, ir.TensorBox)
    }
    for name, layout in layouts.items():
        _bind_shape(scope, name, layout)
    for node in replaced.values():
        allow_any_size(scope, node)
    for name, layout in layouts.items():
        scope.define(name, scope.to_layout(layout))
    return inputs


def convert_results(scope: Scope, outputs: list[Any]) -> tuple[Value, ...]:
    """Return the results in order; a result that is a view is made a buffer by a last line.

    Raises:
        UnsupportedLineError: A result is neither a tensor, nor a number, nor None.
    """
    return tuple(_result(scope, node) for node in outputs)


def _input(scope: Scope, name: str, value: Any, donated: set[str]) -> Input:
    if isinstance(value, ir.TensorBox):
        name = scope.name(name)
        return BufferInput(name, donated=name in donated and name not in scope.lent)
    if value is None:
        return _unnamed_number(scope, name, SymbolKind.NONE)
    if isinstance(value, sympy.Symbol) and value.name not in scope.bound:
        return ScalarInput(scope.bind(value))
    if isinstance(value, sympy.Basic):
        kind = SymbolKind.FLOAT if isinstance(value, _FLOATS) else SymbolKind.INT
        number = _unnamed_number(scope, name, kind)
        _check_known(scope, number.symbol, value)
        return number
    if isinstance(value, ir.TorchBindObject):
        return object_input(scope, name, value)
    raise UnsupportedLineError(
        kind="graph input",
        text=f"{name}: {type(value).__name__}",
        why="it is no tensor and no number",
    )


def _unnamed_number(scope: Scope, name: str, kind: SymbolKind) -> ScalarInput:
    """Return an input that binds a symbol which nothing uses: its value is known otherwise."""
    name = scope.name(name)
    scope.bound.add(name)
    scope.draft.bind(name, SymbolInfo(kind))
    return ScalarInput(name)


def _check_known(scope: Scope, symbol: str, value: sympy.Basic) -> None:
    """Have an input checked that the graph took for a number which is always the same."""
    if isinstance(value, sympy.Integer):
        condition, number = sympy.Eq(ours.symbol(symbol), value), str(value)
    elif isinstance(value, _FLOATS):
        condition, number = _is_float(ours.real_symbol(symbol), value), str(float(value))
    else:
        return
    scope.emit(AssertSymbol(ours.scalar(condition), f"{symbol} to be {number}"))


def _is_float(stands: sympy.Symbol, value: sympy.Basic) -> sympy.Basic:
    """Return the condition that a number is a certain float, for which no equation may exist."""
    largest = sympy.Float(sys.float_info.max)
    if isinstance(value, Infinity):
        return stands > largest
    if isinstance(value, NegativeInfinity):
        return stands < -largest
    if isinstance(value, NaN):
        # What is not a number is on neither side of zero; sympy would take "or" for true.
        sides = [ours.Where(side, sympy.S.One, sympy.S.Zero) for side in (stands < 0, stands >= 0)]
        return sympy.Eq(sympy.Add(*sides), 0)
    return sympy.Eq(stands, value)


def _bind_shape(scope: Scope, name: str, layout: Any) -> None:
    """Bind the symbols that are a size or a stride of an input, where it is first met."""
    for value, source in metadata_of(name, layout):
        if isinstance(value, sympy.Symbol) and value.name not in scope.bound:
            scope.emit(BindSymbol(scope.bind(value), source))


def _result(scope: Scope, node: Any) -> Value:
    match to_arg(scope, node):
        case BufferArg(buffer=name):
            return BufferValue(name)
        case ScalarArg(value=value):
            return ScalarValue(value)
        case NoneArg():
            return NoneValue()
        case None:
            raise UnsupportedLineError(
                kind="graph output",
                text=type(node).__name__,
                why="it is neither a tensor, a number nor None",
            )


# Checks of what a graph is given and of what library ops return: layouts and addresses.


_INPUT: Final = "input"


def assert_layout(scope: Scope, name: str, op_name: str, writer: Any) -> None:
    """Check the layout of an input or of an op's result.

    Args:
        scope: Where the check goes.
        name: Inductor's name of the buffer.
        op_name: Inductor's name of the op, ``input`` for an input.
        writer: The node whose result it is.
    """
    check = _check(scope, name, op_name, writer)
    if _last_check(scope, check) is None:
        scope.emit(check)


def assert_alignment(scope: Scope, name: str, bytes_: int, op_name: str, writer: Any) -> None:
    """Check an address too, in the same line as the layout where that comes right before.

    Args:
        scope: Where the check goes.
        name: Inductor's name of the buffer.
        bytes_: What the address has to be a multiple of.
        op_name: Inductor's name of the op, ``input`` for an input.
        writer: The node whose result it is.
    """
    check = _check(scope, name, op_name, writer)
    last = _last_check(scope, check)
    if last is not None:
        scope.body.remove(last)
    scope.emit(dataclasses.replace(check, alignment=bytes_))


def _check(scope: Scope, name: str, op_name: str, writer: Any) -> AssertLayout:
    subject = op_called(op_name, writer)
    origin = scope.origin(writer) if subject != _INPUT else None
    return AssertLayout(scope.resolve(name), subject, origin=origin)


def _last_check(scope: Scope, check: AssertLayout) -> AssertLayout | None:
    """Return the check of the same buffer among those that the body ends with."""
    for line in reversed(scope.body):
        if not isinstance(line, AssertLayout):
            return None
        if line.buffer == check.buffer:
            return line
    return None


# Inputs that a graph gives other data (``x.data = y``) and reads nothing of.
#
# That changes what a tensor is. Dynamo's guards and, before torch 2.15, Inductor's graphs tell of
# such an input what it is afterwards; the node that stands for it tells what it comes with. Since
# nothing is read, any size will do, one of 0 or 1 that its symbol's range excludes among them.


def replaced_inputs(graph: Any) -> Mapping[str, Node]:
    """Return the inputs, by name, whose only use is to be given other data."""
    return {
        node.target: node
        for node in graph.module.graph.nodes
        if node.op == "placeholder"
        and len(node.users) == 1
        and gives_data((user := next(iter(node.users))).target)
        and user.args[0] is node
        and user.args[1] is not node
    }


def layout_at_entry(node: Node) -> Any:
    """Return the layout that an input has before it is given other data."""
    value = node.meta["val"]
    size, stride = ([_expression(n) for n in numbers] for numbers in (value.shape, value.stride()))
    return ir.FixedLayout(value.device, value.dtype, size, stride)


def allow_any_size(scope: Scope, node: Node) -> None:
    """Lift the range of a symbol that is a size of this input and of nothing else."""
    others = [n for n in scope.graph.module.graph.nodes if n is not node and n not in node.users]
    for symbol in layout_at_entry(node).size:
        if isinstance(symbol, sympy.Symbol) and not any(_tells(n, symbol) for n in others):
            scope.draft.symbols[symbol.name] = replace(
                scope.draft.symbols[symbol.name], lower=0, upper=None
            )


def _expression(number: int | torch.SymInt) -> sympy.Expr:
    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)


def _tells(node: Node, symbol: sympy.Symbol) -> bool:
    """Say whether a symbol is in what a node gives; one that is only an input tells nothing."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return bool(node.users) and symbol in value.node.expr.free_symbols
    if not isinstance(value, torch.Tensor):
        return False
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(n, torch.SymInt) and symbol in n.node.expr.free_symbols for n in numbers)
