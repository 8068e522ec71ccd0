"""What a graph of ATen ops says of memory that its caller knows.

The fake values of a graph share storages as its real ones will, ops say in their schemas what they
write to, and AOTAutograd's metadata says which results of the user's function have memory of their
own. A functional graph writes with the copies at its end alone.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.graphs.nodes import (
    calls_functions,
    chain_of_views,
    memory_of,
    returns_view,
    written_by,
)
from wrapper_ir.verify.contract import Contract

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def contract_of(graph: torch.fx.Graph) -> Contract:
    """Return the contract of a graph, whose nodes have fake values, before Inductor changes it.

    Constants go by the names of the graph's attributes.
    """
    places = graph.find_nodes(op="placeholder")
    attributes = {str(node.target): memory_of(node) for node in graph.find_nodes(op="get_attr")}
    (output,) = graph.find_nodes(op="output")
    inputs = tuple(map(memory_of, places))
    results = [memory_of(each) for each in tree_leaves(output.args[0], is_leaf=_is_none)]
    unknown = {
        memory_of(each) for node in graph.nodes if calls_functions(node) for each in node.users
    }
    results = [None if each in unknown else each for each in results]
    for position in _own_results(places, output):
        # A pass before may have put an input in the place of its copy.
        if position < len(results) and results[position] in inputs:
            results[position] = -1 - position  # a number of nobody else's
    written = (memory_of(target) for node in graph.nodes for target in written_by(node))
    return Contract(
        inputs=inputs,
        results=tuple(results),
        constants=attributes,
        written=frozenset(each for each in written if each is not None),
    )


def _own_results(places: Sequence[torch.fx.Node], output: torch.fx.Node) -> Iterator[int]:
    """Yield the positions of results that AOTAutograd says have memory of their own.

    It says the same of the views that ops such as ``chunk`` return several of, since nobody may
    write to them where gradients are taken. Their number tells the truth.
    """
    trace = compat.TracingContext.try_get()
    metadata = None if trace is None else trace.fw_metadata
    kinds = compat.TangentAOTInput
    if metadata is None or any(isinstance(each.meta.get("desc"), kinds) for each in places):
        return  # a backward has none
    results = tree_leaves(output.args[0], is_leaf=_is_none)
    descriptors = output.meta.get("desc") or ()
    # Of ops with effects, torch takes the tokens out of the results, but not what describes them.
    tokens = max(0, len(descriptors) - len(results))
    told = zip(results, descriptors[tokens:], strict=False)
    for position, (node, each) in enumerate(told):
        if isinstance(each, compat.PlainAOTOutput) and not _is_one_of_views(node):
            info = metadata.output_info[each.idx]
            if info.output_type is compat.OutputType.non_alias:
                yield position


def _is_one_of_views(node: Any) -> bool:
    """Return whether a node is one of several views that an op returns, or a view of one."""
    if not isinstance(node, torch.fx.Node):
        return False
    root = chain_of_views(node)[-1]
    return root.target is operator.getitem and any(map(returns_view, root.all_input_nodes))


def _is_none(value: object) -> bool:
    return value is None
