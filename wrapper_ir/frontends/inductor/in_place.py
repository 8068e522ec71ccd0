"""Inductor's passes that write in place or leave out copies, switched off where they are wrong.

Some of them decide from fake values and patterns, and some have been wrong. One that takes a copy
for its source does not run where somebody counts from the beginning of the copy; those that write
in place do not run on views of another element type, nor at all in a graph that is lowered again.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_leaves

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.graphs.nodes import chain_of_views, memory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Ops that Inductor takes for copies with an argument of zero, and those with one of zero or one.
_SUMS: Final = (torch.ops.aten.add, torch.ops.aten.sub)
_ARITHMETIC: Final = (*_SUMS, torch.ops.aten.mul, torch.ops.aten.div)

#: True while a graph is lowered without the passes that write in place.
keeps_copies: ContextVar[bool] = ContextVar("keeps_copies", default=False)


@contextlib.contextmanager
def with_copies() -> Iterator[None]:
    """Lower graphs without the passes that write in place, for the length of a block."""
    token = keeps_copies.set(True)
    try:
        yield
    finally:
        keeps_copies.reset(token)


def unless_with_copies(
    is_ours: Callable[[], bool], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap one of Inductor's passes that make a graph write in place, so that it can be off."""

    @wraps(stock)
    def change(graph: Any, *args: Any, **kwargs: Any) -> Any:
        is_off = keeps_copies.get() or (
            is_ours() and _writes_through_bits(getattr(graph, "graph", graph))
        )
        return None if is_off else stock(graph, *args, **kwargs)

    return change


def _writes_through_bits(graph: torch.fx.Graph) -> bool:
    """Return whether a pass may make an op write to a view of another element type.

    Inductor's loops then convert numbers, where the bits are to be stored.
    """
    nodes = (node for node in graph.nodes if node.target in compat.inplaceable_ops)
    firsts = (node.args[0] for node in nodes if node.args)
    return any(isinstance(each, torch.fx.Node) and _is_of_bits(each) for each in firsts)


def _is_of_bits(node: torch.fx.Node) -> bool:
    return any(each.target is torch.ops.aten.view.dtype for each in chain_of_views(node))


def keeping_storages(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a pass of Inductor's that leaves out ops which only copy, such as ``clone`` or ``+ 0``.

    It puts what was copied in the place of the copy, which may begin elsewhere in its storage, and
    have other strides. Who counts from the beginning of the storage then finds other elements. So
    the pass does not run where such a node is a view of a copy.

    The pass that leaves out arithmetic takes ``neutral``, the nodes of zeros and those of ones. It
    makes results share memory, which get a copy here, and gives what stays the fake value of what
    was left out, so that its views seem to have other memory.
    """

    @wraps(stock)
    def remove(graph: Any, *neutral: Any) -> Any:
        nodes: torch.fx.Graph = getattr(graph, "graph", graph)
        if not is_ours():
            return stock(graph, *neutral)
        if _counts_from_copy(nodes):
            return None
        if neutral:
            _copy_sums(nodes, *neutral)
        values = {node: node.meta.get("val") for node in nodes.nodes if neutral}
        done = stock(graph, *neutral)
        for node in values.keys() & {*nodes.nodes}:
            if _differs_in_memory(values[node], node.meta.get("val")):
                node.meta["val"] = values[node]
        return done

    return remove


def _copy_sums(graph: torch.fx.Graph, zeros: Iterable[Any], ones: Iterable[Any]) -> None:
    """Copy results that may be what a zero was added to, if the caller has that as well."""
    (output,) = graph.find_nodes(op="output")
    results = {memory_of(each) for each in tree_leaves(output.args)} - {None}
    given = {memory_of(each) for each in graph.find_nodes(op="placeholder")} - {None} | results
    for packet in _ARITHMETIC:
        neutral = {0, *zeros} if packet in _SUMS else {1, *ones}
        for node in graph.find_nodes(op="call_function", target=packet.Tensor):
            is_left_out = any(each in neutral for each in node.args[:2])
            is_same = is_left_out and any(memory_of(each) in given for each in node.args[:2])
            if is_same and memory_of(node) in results:
                with graph.inserting_after(node):
                    copied = graph.call_function(torch.ops.aten.clone.default, (node,))
                # The copy has the memory, since views of it are told by that.
                copied.meta = node.meta
                node.meta = {**node.meta, "val": node.meta["val"].clone()}
                node.replace_all_uses_with(copied, lambda user, own=copied: user is not own)


def _differs_in_memory(one: object, other: object) -> bool:
    """Return whether two fake values of one node are certainly alike but for their memory.

    The pass has compared sizes and types. Strides are compared without a guard on symbols.
    """
    if one is other or not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return bool(compat.statically_known_true(compat.sym_eq(one.stride(), other.stride())))


def _counts_from_copy(graph: torch.fx.Graph) -> bool:
    """Return whether a node counts from the beginning of memory that a copy may have made."""
    aten = torch.ops.aten
    for op in (aten.as_strided.default, aten.as_strided_scatter.default):
        calls = graph.find_nodes(op="call_function", target=op)
        if any(_may_be_left_out(chain_of_views(node.args[0])[-1]) for node in calls):
            return True
    writing: Any = torch.ops.higher_order.auto_functionalized_v2
    calls = graph.find_nodes(op="call_function", target=writing)
    bases = [base for node in calls for base in node.kwargs.get("_all_bases") or ()]
    # A base that is a copy itself is cloned again where that is needed.
    roots = (root for base in bases if (root := chain_of_views(base)[-1]) is not base)
    return any(map(_may_be_left_out, roots))


def _may_be_left_out(node: torch.fx.Node) -> bool:
    """Return whether a node calls an op that Inductor may take for a copy."""
    packet = getattr(node.target, "overloadpacket", None)
    return node.target in compat.noop_registry or packet in _ARITHMETIC
