"""The plain tensors that hold the values of a tensor subclass, such as a distributed tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def is_wrapper(value: object) -> bool:
    """Return whether a value is a tensor that holds others, by PyTorch's flattening protocol."""
    return isinstance(value, Tensor) and hasattr(type(value), "__tensor_flatten__")


def parts_of(name: str, value: Tensor) -> dict[str, Tensor]:
    """Return the plain tensors that hold a tensor's values, by their names in programs.

    A plain tensor holds its own. If a subclass holds one plain tensor, that goes by the name of the
    subclass: the values of a distributed ``layer.weight`` on this rank are ``layer.weight``. If it
    holds several, each goes by the attributes that lead to it: ``layer.weight.scale``.
    """
    found = [*_plain(value, ())]
    if len(found) == 1:
        return {name: found[0][1]}
    return {".".join((name, *path)): part for path, part in found}


def with_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name with each tensor subclass replaced by what :func:`parts_of` finds."""
    return {
        each: part
        for name, value in values.items()
        for each, part in (parts_of(name, value) if is_wrapper(value) else {name: value}).items()
    }


def _plain(value: Tensor, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    """Yield the plain tensors in a tensor, each with the attributes that lead to it."""
    holder: Any = value
    if not is_wrapper(value):
        yield path, value
        return
    for attribute in holder.__tensor_flatten__()[0]:
        inner = getattr(holder, attribute)
        if isinstance(inner, Tensor):  # not an object, such as a mesh of devices
            yield from _plain(inner, (*path, attribute))
