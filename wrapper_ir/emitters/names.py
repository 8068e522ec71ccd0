"""A map from a program's names to identifiers of a target, one to one.

The IR's names are ASCII identifiers without a keyword list, in separate spaces (a buffer and a
kernel may share a name), and ops have qualified names that no target could use. A target proposes
an identifier for each thing and lists the words that it cannot use. A name without a clash stays
as it is, and which names change depends on the program alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["NamePlan", "as_identifier"]

K = TypeVar("K", bound=Hashable)

_OTHER = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)


def as_identifier(text: str) -> str:
    """Return a readable identifier for any text: ``aten::addmm.out`` becomes ``aten_addmm_out``."""
    name = _OTHER.sub("_", text)
    return name if name and not name[0].isdigit() else f"_{name}"


class NamePlan(Generic[K]):
    """Identifiers for everything that a program names: all different, none reserved.

    Args:
        wanted: Each thing with its preferred identifier, the most important first: the earlier of
            two that prefer the same one gets it.
        reserved: Identifiers that nothing may have.
    """

    def __init__(self, wanted: Iterable[tuple[K, str]], reserved: Collection[str]) -> None:
        self._taken = set(reserved)
        self._names: dict[K, str] = {}
        late: list[tuple[K, str]] = []
        for key, name in wanted:
            if key in self._names:
                continue
            if name in self._taken:
                late.append((key, name))
            else:
                self._names[key] = name
                self._taken.add(name)
        # New names come last, so that they take none that could have stayed.
        for key, name in late:
            if key not in self._names:
                self._names[key] = self.fresh(name)

    def __getitem__(self, key: K) -> str:
        return self._names[key]

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def fresh(self, name: str) -> str:
        """Return an unused identifier like ``name``, and mark it as used."""
        candidate, number = name, 0
        while candidate in self._taken:
            number += 1
            candidate = f"{name}_{number}"
        self._taken.add(candidate)
        return candidate
