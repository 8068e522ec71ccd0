"""Finds the fx node whose value a buffer holds once a call is done, where that is certain.

Inductor says of a buffer that it holds just one node's value (``origin_node``), as best it can.
Where a buffer is changed in place, what it says is of the last change: an op that gives a changed
copy of its argument, such as ``scatter_add``, is two calls, and only the second leaves its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["held_values"]


def held_values(nodes: Iterable[Any], real_names: Mapping[str, str], graph: Any) -> dict[str, str]:
    """Return the names of the fx nodes whose values buffers hold after a call.

    Args:
        nodes: The IR nodes that the call computes, in their order.
        real_names: Of buffers that stand for another one's contents once changed, that one's name.
        graph: Inductor's graph.
    """
    # A value that stays in registers may keep its place among a kernel's pointers all the same.
    unwritten = {*real_names.values(), *graph.removed_buffers, *graph.inplaced_to_remove}
    found: dict[str, str] = {}
    for node in nodes:
        for buffer in (node, *(getattr(node, "mutation_outputs", None) or ())):
            name = _name(buffer)
            real = real_names.get(name, name)
            if real != name:
                held = _changed_value(node, graph.name_to_buffer.get(real))
            else:
                held = None if name in unwritten else _own_value(node)
            found.pop(real, None)  # the last of the call's nodes counts
            if held is not None:
                found[real] = held.name
    return found


def _name(buffer: Any) -> str:
    try:
        return str(buffer.get_name())
    except (AttributeError, NotImplementedError, AssertionError):
        return ""  # it makes no buffer of its own


def _own_value(node: Any) -> torch.fx.Node | None:
    held = getattr(node, "origin_node", None)
    return None if held is None or _changes_in_place(held) else held


def _changed_value(node: Any, base: Any) -> torch.fx.Node | None:
    """The one node that changes a buffer, if it changes the buffer as a whole and not a view.

    Args:
        node: The IR node that does it.
        base: The buffer; None for one that is no IR node, such as an input.
    """
    last = getattr(base, "origin_node", None)
    if last is not None and not _changes_in_place(last):
        return last if last in (getattr(node, "origins", None) or ()) else None
    changing = [n for n in getattr(node, "origins", None) or () if _changes_in_place(n)]
    if len(changing) != 1:
        return None
    (held,) = changing
    value, target = held.meta.get("val"), held.args[0] if held.args else None
    if not isinstance(value, torch.Tensor) or not isinstance(target, torch.fx.Node):
        return None
    return None if _is_view(target) else held


def _changes_in_place(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_view(node: torch.fx.Node) -> bool:
    """Return whether a node gives a part of another one's memory, as far as its schema tells."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.op not in ("placeholder", "get_attr")
    aliases = (item.alias_info for item in node.target._schema.returns)
    return any(alias is not None and not alias.is_write for alias in aliases)
