"""Process-wide registries that hold weak references."""

from __future__ import annotations

import threading
import weakref
from typing import Final, Generic, Protocol, TypeVar

OPENED_FROM_MEMORY: Final[set[str]] = set()
"""Names of libraries that were opened from memory and that the system therefore does not list."""

T = TypeVar("T")


class Living(Generic[T]):
    """A thread-safe set of weak references."""

    def __init__(self) -> None:
        self._objects: weakref.WeakSet[T] = weakref.WeakSet()
        # Iterating over a set while another thread adds to it raises. The lock is reentrant because
        # listing may allocate, and so run finalizers.
        self._changing = threading.RLock()

    def add(self, item: T) -> None:
        """Add an object."""
        with self._changing:
            self._objects.add(item)

    def all(self) -> list[T]:
        """Return the live objects, in no particular order."""
        with self._changing:
            return list(self._objects)


# Objects that keep memory between calls, released together.


class _Releasable(Protocol):
    def release(self) -> int: ...


_everything: Final[Living[_Releasable]] = Living()


def register(keeper: _Releasable) -> None:
    """Make :func:`release` call ``keeper.release()`` for as long as the object lives."""
    _everything.add(keeper)


def release() -> int:
    """Free the memory that all loaded programs keep between calls; return its bytes.

    Calls in progress free their memory when they end. Programs stay usable; the next call allocates
    again.
    """
    return sum(keeper.release() for keeper in _everything.all())
