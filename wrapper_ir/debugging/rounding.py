"""How far a computed value may be from eager's, and still be the same up to rounding.

A fused kernel and a chain of ATen ops round in different places, and where terms cancel, little
but rounding error is left. The allowance is measured, not guessed: the ops between known tensors
and the value run again in float64, which reveals eager's own error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch import Tensor
from torch.fx.node import map_aggregate, map_arg

from wrapper_ir.graphs.nodes import changes_in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.fx import Node

Indices: TypeAlias = tuple[int, ...]
"""The place of one value among those of a node."""

#: Modules of plain Python functions that graphs call on numbers and tuples.
_PLAIN: Final = ("_operator", "math")

_WIDE: Final = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    torch.complex64: torch.complex128,
}


def rounding(node: Node, part: Tensor, path: Indices, known: Mapping[Node, Any]) -> float | None:
    """Return the largest rounding error of an eager value, or None if it cannot be measured.

    ``part`` is the value at ``path`` among those of a node. Values in ``known`` count as exact;
    every chain of inputs of the node must end in them.
    """
    try:
        wide = _value(node, known)
        for index in path:
            wide = wide[index]
        apart = (part.to(wide.dtype) - wide).abs()
    except Exception:  # an op may raise anything for float64; then there is no reference
        return None
    finite = apart[apart.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _value(node: Node, known: Mapping[Node, Any]) -> Any:
    values: dict[Node, Any] = {}
    for each in _chain(node, known):
        if each in known:
            values[each] = _widened(known[each])
            continue
        if not _is_computed_by_number(each):
            raise ValueError(f"no wide value of {each}")
        args = map_aggregate(map_arg(each.args, values.__getitem__), _widened)
        kwargs = map_aggregate(map_arg(each.kwargs, values.__getitem__), _widened)
        function: Callable[..., Any] = each.target  # type: ignore[assignment]  # call_function
        values[each] = function(*args, **kwargs)
    return values[node]


def _chain(node: Node, known: Mapping[Node, Any]) -> list[Node]:
    """Return the nodes that lead from known values to a node, in graph order."""
    needed: set[Node] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each in needed:
            continue
        needed.add(each)
        if each not in known:
            waiting += each.all_input_nodes
    return [each for each in node.graph.nodes if each in needed]


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    if isinstance(value, Tensor):
        return value.to(_WIDE.get(value.dtype, value.dtype))
    return value


def _is_computed_by_number(node: Node) -> bool:
    """Return whether a node computes nearly the same numbers in a wider type."""
    if node.op != "call_function" or node.target is torch.ops.aten.view.dtype:
        return False
    if not hasattr(node.target, "_schema"):
        return getattr(node.target, "__module__", "") in _PLAIN
    return not changes_in_place(node)


#: The allowed difference by type, relative to the element and to the largest element: kernels and
#: ops sum in different orders, and one step of a narrow type is large. Other types must be equal.
_RELATIVE: Final = {
    torch.float64: 1e-8,
    torch.complex128: 1e-8,
    torch.float32: 1e-5,
    torch.complex64: 1e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float8_e4m3fn: 0.125,
    torch.float8_e4m3fnuz: 0.125,
    torch.float8_e5m2: 0.25,
    torch.float8_e5m2fnuz: 0.25,
}

#: Factor on the absolute tolerance if eager's rounding error could not be measured.
UNMEASURED: Final = 100.0

#: The allowed difference as a multiple of eager's rounding error.
ROUNDINGS: Final = 16.0

#: Integers per thousand that may differ if they were computed from rounded numbers.
_FLIPPED: Final = 1


def few_differ(got: Tensor, expected: Tensor) -> bool:
    """Return whether so few integers differ as those computed from rounded numbers may."""
    count = int((got != expected).sum())
    return count <= max(1, got.numel() * _FLIPPED // 1000)


def tolerance_for(expected: Tensor, dtype: torch.dtype) -> tuple[float, float]:
    """Return the relative tolerance of a type, and an absolute one scaled by the largest value."""
    relative = _RELATIVE.get(dtype, 0.0)
    finite = expected[expected.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return relative, relative * largest
