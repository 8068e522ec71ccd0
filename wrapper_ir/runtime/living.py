"""Objects of the process that are to be found as long as they live, and no longer."""

from __future__ import annotations

import threading
import weakref
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["OPENED_FROM_MEMORY", "Living", "register", "release"]

OPENED_FROM_MEMORY: Final[set[str]] = set()
"""Names by which libraries were opened that are no files: the system does not list them."""

T = TypeVar("T")


class Living(Generic[T]):
    """A set of objects that holds none of them; any thread may add and list."""

    def __init__(self) -> None:
        self._objects: weakref.WeakSet[T] = weakref.WeakSet()
        # Going through a set while another thread adds to it raises. Reentrant: what lists may
        # allocate, and so run code of objects that die.
        self._changing = threading.RLock()

    def add(self, item: T) -> None:
        """Add an object."""
        with self._changing:
            self._objects.add(item)

    def all(self) -> list[T]:
        """Those that live, in no particular order."""
        with self._changing:
            return list(self._objects)


# What keeps memory between calls, to be released together.


class _Releasable(Protocol):
    def release(self) -> int: ...


_everything: Final[Living[_Releasable]] = Living()


def register(keeper: _Releasable) -> None:
    """Have :func:`release` call ``keeper.release()`` too, as long as that object lives."""
    _everything.add(keeper)


def release() -> int:
    """Free the memory that all loaded programs keep between calls; return its bytes.

    Calls in progress free what they use when they end. Programs stay as they are: the next call
    allocates again.
    """
    return sum(keeper.release() for keeper in _everything.all())
