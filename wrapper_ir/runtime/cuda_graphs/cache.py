"""A small cache that drops what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

__all__ = ["Cache"]

V = TypeVar("V")


class Cache(Generic[V]):
    """Values by key, of which it keeps at most so many.

    Args:
        limit: How many.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[Hashable, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[V]:
        return iter(self._items.values())

    def get(self, key: Hashable) -> V | None:
        """The value of a key, which is then the one used last."""
        found = self._items.get(key)
        if found is not None:
            self._items.move_to_end(key)
        return found

    def room(self) -> V | None:
        """Make room for one more; return what had to go."""
        if len(self._items) < self._limit:
            return None
        return self._items.popitem(last=False)[1]

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value; the one used longest ago goes where there are too many."""
        self._items.pop(key, None)
        self.room()
        self._items[key] = value

    def pop(self, key: Hashable) -> V | None:
        """Drop a key; return its value."""
        return self._items.pop(key, None)

    def clear(self) -> None:
        """Drop everything."""
        self._items.clear()
