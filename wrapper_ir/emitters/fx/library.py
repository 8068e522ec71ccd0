"""The namespace ``torch.ops.wrapper_ir``: one library a process, guarded by one lock.

Names in torch's registry live as long as the process does, and registering one twice is an error.
So everything that registers something goes through here, and looks first whether it is there.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.node import has_side_effect

if TYPE_CHECKING:
    from collections.abc import Callable


NAMESPACE: Final = "wrapper_ir"

#: Held while anything is registered. Reentrant: implementing an op may compile it.
LOCK: Final = threading.RLock()

_library: Final[Any] = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]

_implementations: Final[dict[str, Callable[..., Any]]] = {}


def define(schema: str, fake: Callable[..., None] | None = None) -> Any:
    """Register an op, and give its overload.

    Passes over the graph keep its calls: it is there for its effect.

    Args:
        schema: Its schema without the namespace.
        fake: What to do for tensors without data; not for ops that are made of others.
    """
    name = schema.partition("(")[0]
    with LOCK:
        _library.define(schema)
        if fake is not None:
            torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
        return has_side_effect(overload(name))


def implement(
    name: str, function: Callable[..., Any], key: str, *, direct: Callable[..., Any] | None = None
) -> None:
    """Give an op its implementation for a dispatch key.

    Args:
        name: The op's.
        function: The implementation.
        key: The dispatch key.
        direct: What does the same without torch's dispatcher, where that is another function.
    """
    # Code that FX writes names functions by their modules, and compiled ones have none.
    direct = direct or function
    for each in (function, direct):
        if getattr(each, "__module__", None) is None:
            each.__module__ = __name__
    with LOCK:
        _library.impl(name, function, key)
        _implementations[name] = direct


def implementation(name: str) -> Callable[..., Any]:
    """Return an op's implementation for the host's memory, which goes past torch's dispatcher."""
    return _implementations[name]


def overload(name: str) -> Any:
    """The op of that name."""
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def know(condition: Any) -> None:
    """Tell torch that a relation among symbolic numbers holds; raise where it certainly does not.

    ``torch._check`` is torch's documented way to say so, underscore or not.
    """
    torch._check(condition)  # noqa: SLF001
