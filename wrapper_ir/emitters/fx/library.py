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
    from collections.abc import Callable, Sequence


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


def op_named(name: str) -> Any:
    """The overload of any library's op, ``aten::add.Tensor``; ``None`` where there is none."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def know(condition: Any) -> None:
    """Tell torch that a relation among symbolic numbers holds; raise where it certainly does not.

    ``torch._check`` is torch's documented way to say so, underscore or not.
    """
    torch._check(condition)  # noqa: SLF001


# Ops of more arguments than torch's registry takes: they get a list for each kind of argument.
#
# The kinds are those of schemas, ``Tensor!`` being a tensor that is written. What has few arguments
# is left as it is, so functions here are called for any op.


#: Torch's dispatcher keeps one bit for each argument of an op.
LIMIT: Final = 64

_LISTS: Final = {
    "Tensor": "Tensor[] tensors",
    "Tensor!": "Tensor(a!)[] written",
    "SymInt": "SymInt[] integers",
    "Scalar": "Scalar[] scalars",
}


def is_packed(kinds: Sequence[str]) -> bool:
    """Return whether an op with arguments of such kinds takes lists."""
    return len(kinds) > LIMIT


def packed_params(kinds: Sequence[str]) -> list[str]:
    """The parameters of an op that takes lists, as its schema has them."""
    return [text for kind, text in _LISTS.items() if kind in kinds]


def pack(kinds: Sequence[str], args: Sequence[Any]) -> tuple[Any, ...]:
    """Return what to pass to an op for its arguments."""
    if not is_packed(kinds):
        return tuple(args)
    pairs = list(zip(kinds, args, strict=True))
    return tuple([arg for k, arg in pairs if k == kind] for kind in _LISTS if kind in kinds)


def unpack(kinds: Sequence[str], args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments that were passed to an op; the inverse of :func:`pack`."""
    if not is_packed(kinds):
        return tuple(args)
    present = [kind for kind in _LISTS if kind in kinds]
    given = {kind: iter(items) for kind, items in zip(present, args, strict=True)}
    return tuple(next(given[kind]) for kind in kinds)
