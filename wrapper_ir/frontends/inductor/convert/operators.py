"""Operators of our own, for what Inductor writes as calls of Python functions.

A program calls operators only. So such a function is one of torch's registry, and every emitter
calls it like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.node import has_side_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["define"]

_NAMESPACE: Final = "wrapper_ir_inductor"
_library: Final[Any] = torch.library.Library(_NAMESPACE, "DEF")  # type: ignore[no-untyped-call]


def define(
    schema: str,
    function: Callable[..., Any],
    *,
    fake: Callable[..., Any] | None = None,
    tags: Sequence[torch.Tag] = (),
) -> Any:
    """Register an op and give its overload; passes over a graph keep its calls.

    Args:
        schema: Its schema without the namespace.
        function: What it does, on any device.
        fake: What it does with tensors without data, where that is something else.
        tags: What torch is to know of it.
    """
    name = schema.partition("(")[0]
    _library.define(schema, tags=tuple(tags))
    _library.impl(name, function, "CompositeExplicitAutograd")
    if fake is not None:
        torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=_library)
    return has_side_effect(getattr(getattr(torch.ops, _NAMESPACE), name).default)
