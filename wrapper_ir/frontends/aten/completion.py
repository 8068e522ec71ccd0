"""Shapes that nodes of a graph do not know, worked out from those that do.

Tools that change graphs often leave out the stand-in (``meta["val"]``) of what they have inserted.
Torch's stand-ins work out an op's result when the op is called with them, so that is what is done.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from wrapper_ir.frontends.aten import numbers
from wrapper_ir.frontends.aten.errors import NotAnAtenGraphError
from wrapper_ir.frontends.aten.schemas import is_op

if TYPE_CHECKING:
    from torch.fx import Node

__all__ = ["completed"]


def completed(module: GraphModule) -> GraphModule:
    """Return the module with every shape known that its graph needs; itself, if all are.

    Raises:
        NotAnAtenGraphError: A shape cannot be worked out.
    """
    if not any(_is_missing(node) for node in module.graph.nodes):
        return module
    copied = GraphModule(module, copy.deepcopy(module.graph))
    copied.__dict__.update({k: v for k, v in vars(module).items() if k not in vars(copied)})
    for node in copied.graph.nodes:
        if _is_missing(node):
            node.meta["val"] = _value_of(copied, node)
    return copied


def _is_missing(node: Node) -> bool:
    is_wanted = node.op == "call_function" and bool(node.users)
    return is_wanted and "val" not in node.meta and numbers.find(node.target) is None


def _value_of(module: GraphModule, node: Node) -> Any:
    inputs = (n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder")
    mode = next((v.fake_mode for v in inputs if hasattr(v, "fake_mode")), None)
    target: Any = node.target
    if is_op(target) and _writes(target):
        raise NotAnAtenGraphError(what=f"the shape of %{node.name} is not known")
    try:
        args, kwargs = torch.fx.node.map_arg(
            (node.args, node.kwargs), lambda n: _in_mode(_stand_in(module, n), mode)
        )
        return target(*args, **kwargs)
    except Exception as error:
        what = f"the shape of %{node.name} is not known (its meta has no 'val'), and torch says"
        raise NotAnAtenGraphError(what=f"{what}: {error}") from error


def _stand_in(module: GraphModule, node: Node) -> Any:
    if node.op != "get_attr" or "val" in node.meta:
        return node.meta["val"]
    found: Any = module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found


def _in_mode(value: Any, mode: Any) -> Any:
    """Return a tensor as a stand-in of one kind: torch does not mix those of several."""
    if isinstance(value, (list, tuple)):
        return [_in_mode(item, mode) for item in value]
    if mode is None or not isinstance(value, torch.Tensor):
        return value
    own = getattr(value, "fake_mode", None)
    if own is mode:
        return value
    if own is None:
        return mode.from_tensor(value)
    with mode:
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )


def _writes(target: Any) -> bool:
    return any("!" in part for part in str(target._schema).partition("->")[:1])  # noqa: SLF001
