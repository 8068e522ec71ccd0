"""Inductor's hooks for intermediate values (``generate_intermediate_hooks``), as calls of an op.

Inductor writes a call of a Python function behind what it wants to show. A program calls operators
only, so the function is one of torch's registry here, and every emitter calls it like any other.
The hooks themselves stay where Inductor has them, and are asked for at each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.frontends.inductor.compat import inductor_config, ir, run_intermediate_hooks
from wrapper_ir.frontends.inductor.convert.operators import define

if TYPE_CHECKING:
    import torch

__all__ = ["HOOK", "hooked_name"]


def _show(value: torch.Tensor, name: str) -> None:
    run_intermediate_hooks(name, value)  # type: ignore[no-untyped-call]


#: Shows a tensor to the hooks, under the name of the node of the graph that it comes from.
HOOK: Final = define("intermediate_hook(Tensor value, str name) -> ()", _show)


def hooked_name(node: Any) -> str:
    """Return under which name the hooks see what an IR node computes; empty when they do not.

    Inductor knows the origin of single tensors only, not of several results of one call.
    """
    if not inductor_config.generate_intermediate_hooks or not isinstance(node.layout, ir.Layout):
        return ""
    origin = node.get_origin_node()
    return str(origin.name) if origin is not None else ""
