"""Texts of older versions, made into texts of this one.

A version of the form is a step in :data:`UPGRADES`, and nothing else knows of it: the reader reads
this version alone. Steps go line by line, and a line keeps its number, so an error in an old file
is reported where it stands. Sources of kernels and remarks stay as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["UPGRADES", "upgrade", "upgraded_lines"]

_HEAD: Final = re.compile(r"([ \t]*wir[ \t]+)(\d{1,9})([ \t\r]*(?:;.*)?)", re.DOTALL)

#: How lines begin that no version has changed: remarks, comments, sources of kernels.
_ASIDE: Final = (";", "//", "|")

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_EMPTY_CAPTURES: Final = re.compile(rf'((?:{_STRING}|[^";])*?)\bwith[ \t]*\([ \t]*\)')


def _from_1(line: str) -> str:
    """Version 1 wrote ``with ()`` where a choice or loop takes nothing; version 2 leaves it out."""
    found = _EMPTY_CAPTURES.match(line) if "with" in line else None
    return line if found is None else found[1].rstrip(" \t") + line[found.end() :]


UPGRADES: Final[Mapping[int, Callable[[str], str]]] = {1: _from_1}
"""By version: what makes a line of that version one of the next."""


def upgrade(text: str) -> str:
    """A text in this version: remarks, indentation and empty lines are kept.

    A text that does not say its version, or says a newer one, comes back as it is; parsing tells
    what is wrong with it.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith(";"):
            head = _HEAD.fullmatch(line)
            if head is None or not 0 < int(head[2]) < SCHEMA_VERSION:
                return text
            lines[number] = f"{head[1]}{SCHEMA_VERSION}{head[3]}"
            lines[number + 1 :] = upgraded_lines(lines[number + 1 :], int(head[2]))
            break
    return "\n".join(lines)


def upgraded_lines(lines: list[str], version: int) -> list[str]:
    """Lines of an older version as lines of this one, as many and in the same places."""
    for number in range(version, SCHEMA_VERSION):
        step = UPGRADES[number]
        lines = [line if _is_aside(line) else step(line) for line in lines]
    return lines


def _is_aside(line: str) -> bool:
    stripped = line.lstrip()
    return not stripped or stripped.startswith(_ASIDE)
