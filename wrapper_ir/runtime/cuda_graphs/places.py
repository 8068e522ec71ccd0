"""Input buffers of captured graphs, copies to and from them, and comparison of addresses."""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import data_ptr_address, reinterpret_tensor
from wrapper_ir.runtime.apart import elements, extent
from wrapper_ir.toolchain.native import Extension

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The largest ratio of a tensor's extent to the bytes of its elements.
_GAPS: Final = 4

_SMALL: Final = 16 * 1024 * 1024
"""Bytes up to which gaps do not matter."""


def is_dense(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Return whether a tensor's elements fill their memory without gaps or overlaps."""
    if 0 in size:
        return True
    expected = 1
    for step, n in sorted((s, n) for n, s in zip(size, stride, strict=True) if n != 1):
        if step != expected:
            return False
        expected *= n
    return True


def is_expanded(tensor: Tensor) -> bool:
    """Return whether a dimension is expanded."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(step == 0 and size > 1 for size, step in pairs)


def is_sparse_in_memory(tensor: Tensor) -> bool:
    """Return whether there is much memory between a tensor's elements."""
    return extent(tensor) > max(_SMALL, _GAPS * tensor.numel() * tensor.element_size())


def place_like(tensor: Tensor) -> Tensor:
    """Allocate a tensor of the same size, strides and dtype."""
    size, stride = tensor.shape, tensor.stride()
    with torch.inference_mode(mode=False):  # a later call may be out of that mode
        flat = torch.empty(elements(size, stride), dtype=tensor.dtype, device=tensor.device)
        return flat.as_strided(size, stride)


def copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors to others of the same size and strides, dense or not."""
    into: list[Tensor] = []
    of: list[Tensor] = []
    for target, source in zip(targets, sources, strict=True):
        size, stride = target.shape, target.stride()
        if is_dense(size, stride):
            into.append(target)
            of.append(source)
        else:  # elements may overlap; copying the gaps between them does no harm
            flat = (elements(size, stride),), (1,)
            into.append(reinterpret_tensor(target, *flat))
            of.append(reinterpret_tensor(source, *flat))
    copy_dense(into, of)


def copy_dense(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy dense tensors."""
    if torch.is_grad_enabled():  # autograd must not record these copies
        with torch.no_grad():
            _copy(targets, sources)
    else:
        _copy(targets, sources)


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    if len(targets) == 1:
        targets[0].copy_(sources[0])
    elif targets:
        torch._foreach_copy_(targets, sources)


# The addresses at which a captured graph expects tensors.

_EXTENSION: Final = Extension("wir_addresses", "cuda/addresses.cpp")

_FEW: Final = 4
"""Up to this many addresses, a comparison in Python is as fast."""


class Addresses:
    """Expected addresses of tensors in a list.

    Args:
        expected: The addresses by position.
    """

    def __init__(self, expected: Mapping[int, int]) -> None:
        self._expected = tuple(expected.items())
        self._packed = b"".join(struct.pack("=qQ", *pair) for pair in self._expected)
        self._same = _compare() if len(expected) > _FEW else None

    def hold(self, tensors: list[Any]) -> bool:
        """Return whether the tensors at these positions have their data at these addresses."""
        if self._same is not None:
            return self._same(tensors, self._packed)
        return all(tensors[n].data_ptr() == address for n, address in self._expected)


@functools.cache
def _compare() -> Callable[[list[Any], bytes], bool] | None:
    """Return the native comparison; ``None`` if it cannot be compiled or used."""
    address = data_ptr_address()
    if not address:
        return None
    try:
        module = _EXTENSION.load()
    except WrapperIRError:
        return None
    module.setup(address)
    same: Callable[[list[Any], bytes], bool] = module.same
    return same
