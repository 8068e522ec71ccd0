"""Facts about a graph's nodes from the schemas of their ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._pytree import tree_leaves

from wrapper_ir.analysis.collectives import received, waited_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.fx import Node

#: Functional forms of ops that write: they return what they would have written.
_FUNCTIONAL: Final = frozenset(
    {"auto_functionalized", "auto_functionalized_v2", "triton_kernel_wrapper_functional"}
)


def changes_in_place(node: Node) -> bool:
    """Return whether a node calls an op that writes to an argument."""
    return isinstance(node.target, OpOverload) and bool(node.target._schema.is_mutable)


def returns_view(node: Node) -> bool:
    """Return whether a node calls an op that returns a view of an argument."""
    if not isinstance(node.target, OpOverload):
        return False
    returns = (each.alias_info for each in node.target._schema.returns)
    return any(each is not None and not each.is_write for each in returns)


def chain_of_views(node: Node) -> list[Node]:
    """Return a node, what it is a view of, what that is a view of, and so on to the root."""
    chain = [node]
    while returns_view(chain[-1]) and isinstance(chain[-1].args[0], torch.fx.Node):
        chain.append(chain[-1].args[0])
    return chain


def written_by_op(node: Node) -> Iterator[Any]:
    """Yield the arguments that the op of a node writes to, those in lists each on its own."""
    if not changes_in_place(node):
        return
    op: Any = node.target
    for position, param in enumerate(op._schema.arguments):
        if param.alias_info is not None and param.alias_info.is_write:
            is_given = position < len(node.args) and not param.kwarg_only
            given = node.args[position] if is_given else node.kwargs.get(param.name)
            yield from tree_leaves(given)


def written_items(node: Node) -> Sequence[Any]:
    """Return the list that a node's op writes to, if items are taken of it; else nothing.

    Where Inductor writes in place, an op such as ``_foreach_add`` becomes ``_foreach_add_``, which
    returns nothing. Items are still taken of it, and are those of the list that it writes to.
    """
    op = node.target
    if (
        not isinstance(op, OpOverload)
        or op._schema.returns
        or not (op._schema.arguments and node.args)
    ):
        return ()
    first, given = op._schema.arguments[0].alias_info, node.args[0]
    is_written = first is not None and first.is_write
    return given if is_written and isinstance(given, (list, tuple)) else ()


def returned_arguments(node: Node) -> Sequence[Any]:
    """Return the arguments that a node hands back though its schema does not say so.

    Each is where it is in the result; None stands for a result of its own.
    """
    if not isinstance(node.target, OpOverload) or not node.args:
        return ()
    name = node.target._schema.name
    return written_items(node) or waited_for(name, node.args) or received(name, node.args)


def calls_functions(node: Node) -> bool:
    """Return whether a node calls functions, whose results may be operands, or views of them."""
    target = node.target
    return isinstance(target, HigherOrderOperator) and str(target) not in _FUNCTIONAL


def written_by(node: Node) -> Iterator[Any]:
    """Yield the nodes whose values a node writes to, or may write to."""
    yield from written_by_op(node)
    if isinstance(node.target, OpOverload):
        yield from filter(None, received(node.target._schema.name, node.args))
    if calls_functions(node):
        inner = next((each for each in node.args if isinstance(each, OpOverload)), None)
        if inner is None:  # who knows what its functions do
            yield from tree_leaves((node.args, node.kwargs))
        elif inner._schema.is_mutable:
            yield from node.all_input_nodes
