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
    try:
        args = torch.fx.node.map_arg(node.args, lambda n: _stand_in(module, n))
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: _stand_in(module, n))
        target: Any = node.target
        if is_op(target) and _writes(target):
            raise NotAnAtenGraphError(what=f"the shape of %{node.name} is not known")
        return target(*args, **kwargs)
    except Exception as error:
        what = f"the shape of %{node.name} is not known (its meta has no 'val'), and torch says"
        raise NotAnAtenGraphError(what=f"{what}: {error}") from error


def _stand_in(module: GraphModule, node: Node) -> Any:
    if node.op == "get_attr":
        found: Any = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return node.meta.get("val", found)
    return node.meta["val"]


def _writes(target: Any) -> bool:
    return any("!" in part for part in str(target._schema).partition("->")[:1])  # noqa: SLF001
