"""Shapes that nodes of a graph do not know, worked out from those that do.

Tools that change graphs often leave out the stand-in (``meta["val"]``) of what they have inserted.
Torch's stand-ins work out an op's result when the op is called with them, so that is what is done.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from wrapper_ir.frontends.aten import numbers
from wrapper_ir.frontends.aten.schemas import is_op

if TYPE_CHECKING:
    from torch.fx import Node

__all__ = ["completed"]


def completed(module: GraphModule) -> GraphModule:
    """Return the module with every shape known that can be worked out; itself, if none is missing.

    Of what has none after that, the conversion says so if it needs it.
    """
    if not any(map(_is_missing, module.graph.nodes)):
        return module
    copied = GraphModule(module, copy.deepcopy(module.graph))
    copied.__dict__.update({k: v for k, v in vars(module).items() if k not in vars(copied)})
    inputs = (n.meta.get("val") for n in copied.graph.nodes if n.op == "placeholder")
    mode = next((v.fake_mode for v in inputs if hasattr(v, "fake_mode")), None)
    for node in copied.graph.nodes:
        if _is_missing(node):
            _complete(copied, node, mode)
    return copied


def _is_missing(node: Node) -> bool:
    is_wanted = node.op == "call_function" and bool(node.users) and "val" not in node.meta
    return is_wanted and (is_op(node.target) or numbers.find(node.target) is not None)


def _complete(module: GraphModule, node: Node, mode: Any) -> None:
    target: Any = node.target
    if is_op(target) and _writes(target):
        return
    # What torch says of a call that it does not allow is of many classes.
    with contextlib.suppress(Exception):
        args, kwargs = torch.fx.node.map_arg(
            (node.args, node.kwargs), lambda n: _in_mode(_stand_in(module, n), mode)
        )
        node.meta["val"] = target(*args, **kwargs)


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
