"""What is worked out once for each class of lines, or of parts of lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerClass(dict[type, T], Generic[T]):
    """A table by class, whose entries are made when they are first asked for.

    Args:
        make: Makes the entry of a class.
    """

    def __init__(self, make: Callable[[type], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, cls: type) -> T:
        found = self[cls] = self._make(cls)
        return found
