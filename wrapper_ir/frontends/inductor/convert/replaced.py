"""Inputs that a graph gives other data (``x.data = y``) and reads nothing of.

That changes what a tensor is. Dynamo's guards and, before torch 2.15, Inductor's graphs
tell of such an input what it is afterwards; the node that stands for it tells what it comes with.
Since nothing is read, any size will do, one of 0 or 1 that its symbol's range excludes among them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy
import torch

from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.differences import gives_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.fx import Node

    from wrapper_ir.frontends.inductor.convert.state import Scope

__all__ = ["allow_any_size", "layout_at_entry", "replaced_inputs"]


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
