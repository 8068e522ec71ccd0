"""Where a view lies in its storage: in a program, by its layout, and in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsInt, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node

    from wrapper_ir.lines import Layout

#: Sizes, strides, and the offset in bytes of a view, without dimensions of size one.
ViewPlace: TypeAlias = tuple[tuple[tuple[int, int], ...], int]


def place_of(layout: Layout) -> ViewPlace | None:
    """Return where a view lies in its storage; None if that is not known, or without elements."""
    if not layout.is_static or layout.numel == 0:
        return None
    return _place(layout.size, layout.stride, layout.offset * layout.dtype.itemsize)


def place_in(node: Node, root: Node) -> ViewPlace | None:
    """Return where a node's value lies in the memory of its root."""
    value, base = node.meta.get("val"), root.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(base, torch.Tensor):
        return None
    start = value.storage_offset() * value.itemsize - base.storage_offset() * base.itemsize
    numbers = (*value.shape, *value.stride(), start)
    if not all(type(each) is int for each in numbers) or value.numel() == 0:
        return None
    return _place(value.shape, value.stride(), start)


def _place(size: Sequence[Any], stride: Sequence[Any], start: SupportsInt) -> ViewPlace:
    pairs = zip(size, stride, strict=True)
    return tuple((int(n), int(step)) for n, step in pairs if n != 1), int(start)


def shown(place: ViewPlace) -> str:
    """Describe a place."""
    pairs, start = place
    sizes, steps = ([pair[at] for pair in pairs] for at in range(2))
    return f"sizes {sizes} with strides {steps} at byte {start}"
