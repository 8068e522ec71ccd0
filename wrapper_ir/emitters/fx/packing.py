"""Ops of more arguments than torch's registry takes: they get a list for each kind of argument.

The kinds are those of schemas, ``Tensor!`` being a tensor that is written. What has few arguments
is left as it is, so functions here are called for any op.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


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
