"""Ops that write, in graphs that do not: torch wraps them to work on copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.aten.calls import Expected, emit_call
from wrapper_ir.frontends.aten.schemas import schema_of
from wrapper_ir.frontends.aten.state import Ref, UnsupportedNodeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.fx import Node

    from wrapper_ir.frontends.aten.graph import GraphWalk

__all__ = ["auto_functionalized"]


def auto_functionalized(walk: GraphWalk, node: Node) -> Any:
    """Convert a call of a writing op on copies: clones, then the op itself.

    The node's value is what the op returns, and then the clones.
    """
    op: Any = node.args[0]
    schema = schema_of(op)
    whole = node.meta.get("val")
    if schema is None or not isinstance(whole, (list, tuple)):
        raise UnsupportedNodeError("its op cannot be told")
    given = {name: walk.value(value) for name, value in node.kwargs.items()}
    bases = list(given.pop("_all_bases", []))
    clones = [_cloned(walk, node, base, index) for index, base in enumerate(bases)]
    kwargs: dict[str, Any] = {}
    for declared in schema.args:
        if declared.name in given:
            kwargs[declared.name] = given[declared.name]
        elif declared.type.writes:
            kwargs[declared.name] = _target(
                given, declared.name, clones, is_list=declared.type.is_list
            )
    count = len(whole) - len(bases)
    value = tuple(whole[:count])
    returned: Any = value if schema.returns_tuple else value[0] if value else None
    expected = Expected(node.name, returned)
    found = emit_call(walk, node, op, (), kwargs, expected)
    firsts = list(found) if schema.returns_tuple and found is not None else [found]
    return [*firsts[:count], *clones] if schema.returns else [*([None] * count), *clones]


def _cloned(walk: GraphWalk, node: Node, base: Any, index: int) -> Any:
    if not isinstance(base, Ref):
        return base
    op = torch.ops.aten.clone.default
    value = node.meta["val"][index - len(node.kwargs.get("_all_bases", ()))]  # type: ignore[arg-type]
    return emit_call(walk, node, op, (base,), {}, Expected(f"{base.name}_clone", value))


def _target(given: Mapping[str, Any], name: str, clones: list[Any], *, is_list: bool) -> Any:
    """Return the clone that stands for a written argument.

    Raises:
        UnsupportedNodeError: The argument is a part of what was cloned.
    """
    if is_list:
        length = given.get(f"_{name}_length")
        if length is None:
            return None
        return [_clone(given, f"{name}_{item}", clones) for item in range(length)]
    return _clone(given, name, clones)


def _clone(given: Mapping[str, Any], name: str, clones: list[Any]) -> Any:
    index = given.get(f"_{name}_base_index")
    if index is None:
        return None
    if any(f"_{name}_{part}" in given for part in ("size", "slice_dim", "stride")):
        raise UnsupportedNodeError(f"its argument {name!r} is a part of a larger tensor")
    return clones[index]
