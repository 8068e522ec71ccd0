"""A use of torch in a line of our code."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Use"]


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """One use.

    Attributes:
        kind: The kind of thing, one of those that ``Release.fact`` knows.
        name: Its name: a dotted chain, or the plain name.
        where: File and line of our code.
    """

    kind: str
    name: str
    where: str
