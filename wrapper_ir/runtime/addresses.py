"""The addresses of many tensors: those that a captured graph expects, and even ones."""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import data_ptr_address
from wrapper_ir.runtime.apart import elements

if TYPE_CHECKING:
    from collections.abc import Mapping

_FEW: Final = 4
"""Up to this many addresses, a comparison in Python is as fast."""


class Addresses:
    """The expected addresses of tensors in a list, by position."""

    def __init__(self, expected: Mapping[int, int]) -> None:
        self._expected = tuple(expected.items())
        self._packed = b"".join(struct.pack("=qQ", *pair) for pair in self._expected)
        self._module = _native() if len(expected) > _FEW else None

    def hold(self, tensors: list[Any]) -> bool:
        """Return whether the tensors at these positions have their data at these addresses."""
        if self._module is not None:
            same: bool = self._module.same(tensors, self._packed)
            return same
        return all(tensors[n].data_ptr() == address for n, address in self._expected)


class Realigned:
    """Copies of a call's inputs at addresses that kernels rely on.

    Args:
        positions: Those of the inputs in the list of a call.
        alignment: Of how many bytes addresses have to be multiples.
    """

    def __init__(self, *positions: int, alignment: int) -> None:
        self._positions = positions
        self._alignment = alignment
        self._packed = struct.pack(f"={len(positions)}q", *positions)

    def __call__(self, args: list[Any]) -> None:
        """Put copies in the place of inputs at other addresses; what is no tensor stays."""
        if len(self._positions) > _FEW:
            module = _native()
            if module is not None and module.aligned(args, self._packed, self._alignment):
                return
        for n in self._positions:
            if n < len(args) and isinstance(args[n], Tensor):
                args[n] = realigned(args[n], self._alignment)


def realigned(tensor: Tensor, alignment: int) -> Tensor:
    """Return a tensor, or a copy with its strides if it begins at no multiple of so many bytes.

    A tensor without strides is returned as it is; checks refuse it.
    """
    if tensor.layout != torch.strided or tensor.data_ptr() % alignment == 0:
        return tensor
    with torch.no_grad():
        count = elements(tensor.shape, tensor.stride())
        memory = torch.as_strided(tensor, (count,), (1,)).clone()
        return memory.as_strided(tensor.shape, tensor.stride())


@functools.cache
def _native() -> Any:  # noqa: ANN401 - a module
    """Return the native comparisons; ``None`` if they cannot be compiled or used."""
    from wrapper_ir.toolchain.native import Extension  # noqa: PLC0415 - packages compile nothing

    address = data_ptr_address()
    if not address:
        return None
    try:
        module = Extension("wir_addresses", "cuda/addresses.cpp").load()
    except WrapperIRError:
        return None
    module.setup(address, Tensor)
    return module
