"""Libraries that are open in this process: each once, or once for each device it is loaded for.

A program that names no number of its device stays on the one that is current when its library is
first asked. For another device the library is opened again, from other memory: the dynamic loader
opens one file once.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from wrapper_ir.runtime.devices import current_device
from wrapper_ir.runtime.living import OPENED_FROM_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class OncePerDevice(Generic[T]):
    """Open libraries, by key.

    Args:
        bound: Returns the device that a library is bound to from now on, which is the current one
            unless it was bound before; empty for a library that is for one device.
    """

    def __init__(self, bound: Callable[[T], str]) -> None:
        self._bound = bound
        self._guard = threading.Lock()
        self._found: dict[tuple[Hashable, str], T] = {}

    def opened(self, key: Hashable, first: Callable[[], T], again: Callable[[], T]) -> T:
        """Return the library of a key for the current device, opened now if it is not open.

        Args:
            key: What tells it from others.
            first: Opens it.
            again: Opens it once more, apart from the first.
        """
        with self._guard:
            found = self._get((key, ""), first)
            if here := _elsewhere(self._bound(found)):
                found = self._get((key, here), again)
                self._bound(found)
            return found

    def _get(self, key: tuple[Hashable, str], make: Callable[[], T]) -> T:
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]


def _elsewhere(bound: str) -> str:
    """Return the current device if a library is bound to another one, else nothing."""
    here = str(current_device(bound.partition(":")[0])) if bound else ""
    return "" if here == bound else here


def in_memory(name: str, content: memoryview) -> str:
    """Copy a library to a memory file, and return its path."""
    # It stays open: the loader would take another file with the same number for this one.
    descriptor = os.memfd_create(Path(name).name)
    with open(descriptor, "wb", closefd=False) as memory:
        memory.write(content)
    path = f"/proc/self/fd/{descriptor}"
    OPENED_FROM_MEMORY.add(path)
    return path
