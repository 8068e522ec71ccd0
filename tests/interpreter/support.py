"""Comparing runs of one program to the bit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def same(ours: Any, theirs: Any) -> bool:
    """Whether two results are the same to the bit, numbers and their types included."""
    if not isinstance(ours, Tensor):
        return type(ours) is type(theirs) and (ours == theirs or repr(ours) == repr(theirs))
    if not isinstance(theirs, Tensor) or ours.layout is not theirs.layout:
        return False
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return False
    if ours.layout is torch.strided and ours.numel():
        strides = zip(ours.shape, ours.stride(), theirs.stride(), strict=True)
        if any(one != other for size, one, other in strides if size != 1):
            return False
    return torch.equal(bits(ours), bits(theirs))


def bits(value: Tensor) -> Tensor:
    plain = value.detach().resolve_conj().resolve_neg()
    # A new tensor: strides of dimensions of one element may be anything, and bytes want them 1.
    return plain.new_empty(plain.numel()).copy_(plain.flatten()).view(torch.uint8)


def copies(values: Any) -> list[Any]:
    """Copies of inputs, in their layouts; what shares memory goes on sharing it."""
    memories: dict[int, Tensor] = {}
    found: list[Any] = []
    for value in values:
        if not isinstance(value, Tensor) or value.layout is not torch.strided:
            found.append(value)
            continue
        storage = value.untyped_storage()
        whole = memories.get(storage.data_ptr()) if storage.nbytes() else None
        if whole is None:
            whole = torch.empty(0, dtype=torch.uint8).set_(storage).clone()
            memories[storage.data_ptr()] = whole
        made = torch.empty(0, dtype=value.dtype)
        at = value.storage_offset()
        found.append(made.set_(whole.untyped_storage(), at, value.shape, value.stride()))
    return found
