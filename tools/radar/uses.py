"""Something of torch's that a line of ours relies on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Kind", "Use"]

Kind = Literal["name", "class", "attribute", "text", "C function", "C++ name", "header", "symbol"]


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """One use.

    Attributes:
        kind: What is relied on.
        name: Which: a chain with dots, or the plain name.
        where: File and line of ours.
    """

    kind: str
    name: str
    where: str
