"""Process groups that a graph takes as arguments, or through a mesh.

With ``torch.compiler.config.compile_on_one_rank`` (torch 2.15) Dynamo does not guard on the group
that a caller passes: stock's graphs look it up in each call. Our programs call groups by name, so
each call compares the names with those of the groups that the graph was compiled for. A call with
other groups runs op by op.
"""

from __future__ import annotations

import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.overlaps import OpByOpWarning

if TYPE_CHECKING:
    from collections.abc import Callable


def with_groups(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs so that ours compare groups."""

    @wraps(stock)
    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = stock(model, inputs, *args, **kwargs)
        known = {at: found for at, value in enumerate(inputs) if (found := group_names(value))}
        if not known or not isinstance(model, torch.fx.GraphModule) or not is_ours():
            return compiled
        return _comparing(compiled, model, known)

    return compile_graph


def group_names(value: Any) -> tuple[str, ...]:
    """Return the names of the groups that an argument holds: it is one, or a mesh with some."""
    value = getattr(value, "real_obj", value)
    if compat.is_process_group(value):
        return (str(value.group_name),)
    return compat.groups_of_mesh(value)


def _comparing(
    compiled: Any, model: torch.fx.GraphModule, known: dict[int, tuple[str, ...]]
) -> Callable[..., Any]:
    """Return a compiled graph that runs op by op for other groups."""

    @wraps(compiled)
    def call(*args: Any) -> Any:
        if all(group_names(args[position]) == names for position, names in known.items()):
            return compiled(*args)
        warnings.warn(
            "a call of a compiled function runs op by op: it was compiled for other process groups",
            OpByOpWarning,
            stacklevel=2,
        )
        return model(*args)

    return call
