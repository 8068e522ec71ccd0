"""Addresses at which a captured graph expects tensors, compared in one call."""

from __future__ import annotations

import functools
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import data_ptr_address
from wrapper_ir.toolchain.native import Extension

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Addresses"]

_EXTENSION: Final = Extension(
    "wir_addresses", Path(__file__).resolve().parents[2] / "native" / "cuda" / "addresses.cpp"
)

_FEW: Final = 4
"""So many are compared in Python as fast."""


class Addresses:
    """Addresses by position in a list.

    Args:
        expected: The addresses.
    """

    def __init__(self, expected: Mapping[int, int]) -> None:
        self._expected = tuple(expected.items())
        self._packed = b"".join(struct.pack("=qQ", *pair) for pair in self._expected)
        self._same = _compare() if len(expected) > _FEW else None

    def hold(self, tensors: list[Any]) -> bool:
        """Return whether the tensors have their data there, those at other positions left aside."""
        if self._same is not None:
            return self._same(tensors, self._packed)
        return all(tensors[n].data_ptr() == address for n, address in self._expected)


@functools.cache
def _compare() -> Callable[[list[Any], bytes], bool] | None:
    """The function of the extension module; none where it cannot be compiled, or is of no use."""
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
