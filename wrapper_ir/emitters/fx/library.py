"""The namespace ``torch.ops.wrapper_ir``: one library per process, guarded by one lock.

Names in torch's registry live as long as the process, and registering one twice is an error. So all
registration goes through this module, and callers check first whether the name exists.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.node import has_side_effect

from wrapper_ir.toolchain.manifest import OWN_OPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


NAMESPACE: Final = "wrapper_ir"

#: Held during registration. It is reentrant, since implementing an op may compile it.
LOCK: Final = threading.RLock()

_library: Final[Any] = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]

_implementations: Final[dict[str, Callable[..., Any]]] = {}


def define(schema: str, fake: Callable[..., None] | None = None) -> Any:
    """Register an op, and return its overload.

    The op counts as having side effects, so that graph passes keep its calls.

    ``schema`` has no namespace. An op that is composed of other ops has no ``fake`` implementation.
    """
    name = schema.partition("(")[0]
    with LOCK:
        _library.define(schema)
        if fake is not None:
            torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
        return has_side_effect(overload(name))


def nothing(*_: object) -> None:
    """Do nothing: the fake implementation of an op without results."""


def implement(
    name: str, function: Callable[..., Any], key: str, *, direct: Callable[..., Any] | None = None
) -> None:
    """Set the implementation of an op for a dispatch key.

    ``direct`` is the function to call without torch's dispatcher, if it is a different one.
    """
    # FX's generated code refers to functions by module, which compiled functions lack.
    direct = direct or function
    for each in (function, direct):
        if getattr(each, "__module__", None) is None:
            each.__module__ = __name__
    with LOCK:
        _library.impl(name, function, key)
        _implementations[name] = direct


def implementation(name: str) -> Callable[..., Any]:
    """Return an op's implementation for host memory, which bypasses torch's dispatcher."""
    return _implementations[name]


def overload(name: str) -> Any:
    """Return the overload of one of our ops."""
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def op_named(name: str) -> Any:
    """Return the overload of any op, such as ``aten::add.Tensor``, or ``None``."""
    if name.startswith(OWN_OPS):
        import wrapper_ir.runtime.own_ops  # noqa: F401, PLC0415 - registers them
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def know(condition: Any) -> None:
    """Assert a relation of symbolic numbers to torch; raise if it certainly does not hold.

    ``torch._check`` is documented in spite of its underscore.
    """
    torch._check(condition)  # noqa: SLF001


# Packing: an op with more arguments than torch allows takes one list per kind of argument.
#
# The kinds are those of schemas; ``Tensor!`` is a tensor that is written. Arguments of other ops
# are not packed, so these functions can be called for any op.


#: Torch's dispatcher has one bit for each argument of an op.
LIMIT: Final = 64

_LISTS: Final = {
    "Tensor": "Tensor[] tensors",
    "Tensor!": "Tensor(a!)[] written",
    "SymInt": "SymInt[] integers",
    "Scalar": "Scalar[] scalars",
}


def is_packed(kinds: Sequence[str]) -> bool:
    """Return whether an op with arguments of these kinds takes lists."""
    return len(kinds) > LIMIT


def packed_params(kinds: Sequence[str]) -> list[str]:
    """Return the parameters of an op that takes lists, in schema syntax."""
    return [text for kind, text in _LISTS.items() if kind in kinds]


def pack(kinds: Sequence[str], args: Sequence[Any]) -> tuple[Any, ...]:
    """Pack the arguments of an op into lists if it takes lists."""
    if not is_packed(kinds):
        return tuple(args)
    pairs = list(zip(kinds, args, strict=True))
    return tuple([arg for k, arg in pairs if k == kind] for kind in _LISTS if kind in kinds)


def unpack(kinds: Sequence[str], args: Sequence[Any]) -> tuple[Any, ...]:
    """Unpack the arguments of an op; the inverse of :func:`pack`."""
    if not is_packed(kinds):
        return tuple(args)
    present = [kind for kind in _LISTS if kind in kinds]
    lists = {kind: iter(items) for kind, items in zip(present, args, strict=True)}
    return tuple(next(lists[kind]) for kind in kinds)
