"""One wait for each collective of a graph with gradients.

A wait returns the tensor that it is given, but in a graph it has memory of its own. Where a
parameter is gathered several times, AOTAutograd makes one collective of equal ones, but keeps all
waits. It would save each result for the backward, and give up the memory of each there, which is
one: what the first use has left to others, the next one reads.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def with_one_wait(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap AOTAutograd's function that makes one node of equal ones, before it splits a graph."""

    @wraps(stock)
    def equal_as_one(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> Any:
        found = stock(graph, *args, **kwargs)
        if is_ours() and _keep_first(found):
            return stock(found, *args, **kwargs)
        return found

    return equal_as_one


def _keep_first(graph: torch.fx.Graph) -> bool:
    """Put the first wait of each value in the place of the others; return whether there were."""
    # A process that finds its graphs in a cache splits none.
    from wrapper_ir.analysis.collectives import Kind, facts_of  # noqa: PLC0415 - see above

    is_changed = False
    first: dict[Any, torch.fx.Node] = {}
    for node in list(graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        facts = facts_of(str(node.target.name()))  # type: ignore[no-untyped-call]
        if facts is None or facts.kind is not Kind.WAIT or len(node.args) != 1:
            continue
        (given,) = node.args
        if isinstance(given, torch.fx.Node) and (kept := first.setdefault(given, node)) is not node:
            node.replace_all_uses_with(kept)
            graph.erase_node(node)
            is_changed = True
    return is_changed
