"""The rounding error of a value: how far it is from what its ops give in float64.

A fused kernel and a chain of ATen ops round in different places, and where terms cancel nearly
nothing but rounding is left. How much that may be is measured, not guessed: the ops between known
tensors and the value are run once more in float64, and eager's own error is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.fx.node import map_aggregate, map_arg

from wrapper_ir.debugging.graphs import is_computed_by_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.fx import Node

_WIDE: Final = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    torch.complex64: torch.complex128,
}


def rounding(
    node: Node, part: Tensor, path: tuple[int, ...], known: Mapping[Node, Any]
) -> float | None:
    """Return the largest error of a value that eager execution gave; None where it cannot be told.

    Args:
        node: The node that has the value.
        part: The value; of a node that gives several, one of them.
        path: The place of that one.
        known: Values that are taken for right, which must include all that the node depends on in
            the end.
    """
    try:
        wide = _value(node, known)
        for index in path:
            wide = wide[index]
        apart = (part.to(wide.dtype) - wide).abs()
    except Exception:  # whatever an op says to float64: then there is no second opinion
        return None
    finite = apart[apart.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _value(node: Node, known: Mapping[Node, Any]) -> Any:
    values: dict[Node, Any] = {}
    for each in _chain(node, known):
        if each in known:
            values[each] = _widened(known[each])
            continue
        if not is_computed_by_number(each):
            raise ValueError(f"no wide value of {each}")
        args = map_aggregate(map_arg(each.args, values.__getitem__), _widened)
        kwargs = map_aggregate(map_arg(each.kwargs, values.__getitem__), _widened)
        function: Callable[..., Any] = each.target  # type: ignore[assignment]  # of such a node
        values[each] = function(*args, **kwargs)
    return values[node]


def _chain(node: Node, known: Mapping[Node, Any]) -> list[Node]:
    """Return the nodes from what is known to a node, which is taken for unknown, in order."""
    found: set[Node] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each in found:
            continue
        found.add(each)
        if each not in known:
            waiting += each.all_input_nodes
    return [each for each in node.graph.nodes if each in found]


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    if isinstance(value, Tensor):
        return value.to(_WIDE.get(value.dtype, value.dtype))
    return value
