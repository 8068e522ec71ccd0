"""What emitted files import: memory, views, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wrapper_ir.devices import CPU
from wrapper_ir.runtime import CppKernels, check_number, check_symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CppKernels", "check_number", "check_symbol", "empty", "on_arrays", "view"]


ALIGNMENT = CPU.memory.alignment
"""What programs expect of memory, in bytes."""


class _Memory:
    """A place in another array's memory, which it keeps alive."""

    def __init__(self, owner: np.ndarray, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def empty(dtype: str, size: Sequence[int], stride: Sequence[int]) -> np.ndarray:
    """An array of a layout with undefined contents; strides are in elements."""
    extent = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    # NumPy aligns to 16 bytes; programs count on more.
    memory = np.empty(max(extent, 1) * np.dtype(dtype).itemsize + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return view(memory, dtype, size, stride, start)


def view(
    source: np.ndarray, dtype: str, size: Sequence[int], stride: Sequence[int], offset: int
) -> np.ndarray:
    """Another look at an array's memory, ``offset`` bytes after its first element."""
    kind = np.dtype(dtype)
    address = source.__array_interface__["data"][0] + offset
    interface = {
        "version": 3,
        "data": (address, False),
        "typestr": kind.str,
        "shape": tuple(size),
        "strides": tuple(step * kind.itemsize for step in stride),
    }
    return np.asarray(_Memory(source, interface))


def on_arrays(kernel: Callable[..., None]) -> Callable[..., None]:
    """A compiled kernel that takes arrays where it took tensors."""

    def call(*args: Any) -> None:
        kernel(*(torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in args))

    return call
