"""What a message brings: torch does not see that ``irecv`` writes to the tensor that it is given.

The op's schema says that it writes nothing, so a graph goes on with what was in the tensor before:
with zeros where it was made by ``torch.zeros``. A copy of what was waited for says the same in a
way that torch sees. Nothing is copied for it: the memory is the same.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_RECEIVING = "_c10d_functional::irecv"
_WAIT = "_c10d_functional::wait_tensor"


def with_messages(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs so that ours see what they receive."""

    @wraps(stock)
    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if is_ours() and isinstance(model, torch.fx.GraphModule) and _say_what_comes(model.graph):
            model.recompile()
        return stock(model, inputs, *args, **kwargs)

    return compile_graph


def _say_what_comes(graph: torch.fx.Graph) -> bool:
    """Add a copy of what each wait for a message returns; return whether there were some."""
    is_changed = False
    for node in list(graph.nodes):
        started = node.args[0] if _calls(node, _WAIT) and node.args else None
        if not isinstance(started, torch.fx.Node) or not _calls(started, _RECEIVING):
            continue
        target = started.args[0]
        # Memory of an argument is written where it is.
        if isinstance(target, torch.fx.Node) and target.op != "placeholder":
            with graph.inserting_after(node):
                graph.call_method("copy_", (target, node))
            is_changed = True
    return is_changed


def _calls(node: torch.fx.Node, name: str) -> bool:
    """Return whether a node calls an op, or an overload of it."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return bool(target.name().partition(".")[0] == name)  # type: ignore[no-untyped-call]
    return isinstance(target, torch._ops.OpOverloadPacket) and target._qualified_op_name == name
