"""Which Python variables refer to which storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = ["Bindings"]


class Bindings:
    """Which Python variables hold a reference to which storage, in one function.

    A storage is given back when the last variable that refers to it goes, so ending it means
    deleting every name of it.
    """

    def __init__(self, last: Mapping[str, int], constants: frozenset[str]) -> None:
        self._last = last
        self._constants = constants
        self._group: dict[str, list[str]] = {}

    def define(self, name: str, sources: Sequence[str] = ()) -> None:
        """A variable begins; ``sources`` are buffers whose storage it shares or may share."""
        group = [name]
        for source in sources:
            other = self._group.get(source)
            if other is not None and other is not group:
                other.extend(group)
                for member in group:
                    self._group[member] = other
                group = other
        self._group[name] = group

    def end(self, name: str, index: int) -> list[str]:
        """The variables to delete when a line ends a storage.

        Constants stay, and so do names that are still wanted.
        """
        group = self._group.get(name, [name])
        ended = [n for n in group if n not in self._constants and self._last.get(n, -1) <= index]
        for member in ended:
            self._group.pop(member, None)
        group[:] = [member for member in group if member not in ended]
        return sorted(ended, key=lambda member: member != name)  # the one that the line names first
