"""Something of torch's that a line of ours relies on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Use"]


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """One use.

    Attributes:
        kind: What is relied on: one of those that ``Release.fact`` knows.
        name: Which: a chain with dots, or the plain name.
        where: File and line of ours.
    """

    kind: str
    name: str
    where: str
