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
    receive = getattr(torch.ops._c10d_functional, "irecv", None)
    if receive is None:  # torch 2.15 brought it
        return is_changed
    for started in [node for node in graph.nodes if _packet(node) is receive]:
        target = started.args[0]
        if not isinstance(target, torch.fx.Node) or target.op == "placeholder":
            continue  # memory of an argument is written where it is
        for wait in list(started.users):
            if _packet(wait) is not torch.ops._c10d_functional.wait_tensor:
                continue
            with graph.inserting_after(wait):
                graph.call_method("copy_", (target, wait))
            is_changed = True
    return is_changed


def _packet(node: torch.fx.Node) -> Any:
    """Return the op that a node calls, whether it names an overload or not."""
    return getattr(node.target, "overloadpacket", node.target)
