"""Memory in a graph of ATen ops: which values share it, and which of its contents a node reads.

Each tensor of the graph has a *root*: the placeholder, attribute or node that made the memory that
it is a view of. A node that writes in place begins a new *version* of a root. Version 0 is what the
root was made with.
"""

from __future__ import annotations

import bisect
import operator
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from wrapper_ir.graphs.nodes import calls_functions, returned_arguments, returns_view, written_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.fx import Node

#: Ops that make memory and leave its contents open.
_UNINITIALIZED: Final = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty")
) | {"aten::new_empty_strided", "prims::empty", "prims::empty_permuted", "prims::empty_strided"}

#: Ops that make memory like that of an argument, of which they read no element.
_LIKE: Final = (
    _UNINITIALIZED
    | frozenset(
        f"aten::{name}" for name in ("full_like", "new_full", "new_ones", "new_zeros", "ones_like")
    )
    | {"aten::rand_like", "aten::randint_like", "aten::randn_like", "aten::zeros_like"}
)

#: Ops that return a view, or what Inductor takes for one, and whose schemas do not say so.
_VIEWS: Final = frozenset(
    (
        *("aten::_unsafe_view", "aten::lift_fresh", "inductor::lookup_seed"),
        "prims::inductor_force_stride_order",
    )
)


class Versions:
    """The roots and versions of a graph."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.nodes: dict[str, Node] = {}
        self._at: dict[Node, int] = {}
        self._roots: dict[Node, Node] = {}
        #: The nodes that write to a root, in order.
        self.writers: defaultdict[Node, list[Node]] = defaultdict(list)
        #: Roots that functions of higher-order ops get, and may write to, and their results, which
        #: may be operands.
        self.unknown: set[Node] = set()
        attributes: dict[Any, Node] = {}
        for position, node in enumerate(graph.nodes):
            self.nodes[node.name], self._at[node] = node, position
            if node.op == "get_attr":  # each use of an attribute may have a node of its own
                attributes.setdefault(node.target, node)
            root = attributes[node.target] if node.op == "get_attr" else self._root_of(node)
            self._roots[node] = root
            if any(map(calls_functions, (node, *node.all_input_nodes[:1]))):
                self.unknown.add(self._roots[node])
            if self._copies_nothing(node):
                continue
            for target in dict.fromkeys(map(self.root, written_by(node))):
                if target is not None and isinstance(node.target, OpOverload):
                    self.writers[target].append(node)
                elif target is not None:
                    self.unknown.add(target)

    def root(self, node: Any) -> Node | None:
        """Return the root of a node's value; None for anything else."""
        return self._roots.get(node) if isinstance(node, torch.fx.Node) else None

    def before(self, node: Node, root: Node) -> int:
        """Return the version of a root that a node finds."""
        writers = self.writers.get(root, ())
        return bisect.bisect_left(writers, self._at[node], key=self._at.__getitem__)

    def after(self, node: Node, root: Node) -> int:
        """Return the version of a root that a node leaves."""
        found, writers = self.before(node, root), self.writers.get(root, ())
        return found + (found < len(writers) and writers[found] is node)

    def takes(self, node: Node) -> Iterator[Node]:
        """Yield the roots of what a node takes, and its own."""
        yield from filter(None, map(self.root, (*node.all_input_nodes, node)))

    def reads(self, node: Node) -> Iterator[Node]:
        """Yield the roots whose contents a node reads, or may read."""
        if _is_view(node):
            return
        only_written = {id(each) for each in _overwritten(node)}
        for each in node.all_input_nodes:
            root = self.root(each)
            if root is not None and id(each) not in only_written:
                yield root

    def reads_elements(self, node: Node) -> Iterator[Node]:
        """Yield the roots whose elements a node's value depends on."""
        return iter(()) if op_name(node) in _LIKE else self.reads(node)

    def overtaken(self) -> Iterator[tuple[Node, Node, Node]]:
        """Yield reads of an argument's memory behind the copy that ends what the graph does to it.

        The copies at the end of a functional graph give its arguments their new values. Each comes
        with the argument or attribute, and the last copy to it.
        """
        copies = {root: self._last_copy(root) for root in self.writers}
        ends = {root: copy for root, copy in copies.items() if copy is not None}
        first = min((self._at[copy] for copy in ends.values()), default=len(self._at))
        for node in (*self.nodes.values(),)[first + 1 :]:
            for root in self.reads_elements(node) if node.op != "output" else ():
                if root in ends and self._at[ends[root]] < self._at[node]:
                    yield node, root, ends[root]

    def _last_copy(self, root: Node) -> Node | None:
        """Return the last node that copies something to the whole of an argument, if any does."""
        copy = torch.ops.aten.copy_.default
        found = (each for each in reversed(self.writers[root]) if each.target is copy)
        is_argument = root.op in ("placeholder", "get_attr")
        return next((each for each in found if is_argument and each.args[0] is root), None)

    def _root_of(self, node: Node) -> Node:
        if node.op != "call_function" or not node.args:
            return node
        first, *rest = node.args
        if not isinstance(first, torch.fx.Node):
            return node
        is_item = node.target is operator.getitem
        items, position = returned_arguments(first if is_item else node), rest[0] if is_item else 0
        if items and isinstance(position, int) and (item := self.root(items[position])):
            return item
        if _is_view(node) or _returns_what_it_writes(node) or (is_item and _is_view(first)):
            return self._roots[first]
        return node

    def _copies_nothing(self, node: Node) -> bool:
        """Return whether a node copies memory to itself, because an op has written it already."""
        if node.target is not torch.ops.aten.copy_.default:
            return False
        to, source = node.args[:2]
        is_one = self.root(to) is not None and self.root(to) is self.root(source)
        return is_one and _place(to) == _place(source)


def _is_view(node: Node) -> bool:
    return returns_view(node) or op_name(node) in _VIEWS


def _returns_what_it_writes(node: Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload) or not target._schema.arguments:
        return False
    first = target._schema.arguments[0].alias_info
    returns = target._schema.returns
    is_written = first is not None and first.is_write
    return is_written and len(returns) == 1 and returns[0].alias_info is not None


def _overwritten(node: Node) -> Iterator[Any]:
    """Yield the arguments of which a node reads nothing, because it writes all of them."""
    if node.target in (torch.ops.aten.copy_.default, torch.ops.aten.fill_.Scalar):
        yield node.args[0]
    elif isinstance(node.target, OpOverload) and "out" in node.kwargs:
        yield from tree_leaves(node.kwargs["out"])


def op_name(node: Node) -> str:
    """Return the name of the op that a node calls, without its overload; empty for none."""
    return node.target._schema.name if isinstance(node.target, OpOverload) else ""


def is_uninitialized(node: Node) -> bool:
    """Return whether a node makes memory with whatever is in it."""
    return op_name(node) in _UNINITIALIZED


def _place(node: Any) -> tuple[Any, ...]:
    value = node.meta["val"]
    return (value.dtype, *value.shape, *value.stride(), value.storage_offset())
