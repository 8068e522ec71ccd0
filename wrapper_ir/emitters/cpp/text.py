"""Statements broken over lines: filled up to the margin, continued four columns further in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


LINE_LENGTH: Final = 100
UNIT: Final = "  "
"""One step of indentation."""

_CONTINUED: Final = " " * 4


def call(function: str, *args: str) -> str:
    """``function(args)``."""
    return f"{function}({', '.join(args)})"


def statement(text: str, width: int = 0) -> list[str]:
    """A statement as lines, relative to an indentation of ``width`` columns."""
    if width + len(text) <= LINE_LENGTH:
        return [text]
    lines, line = [], ""
    for part in _parts(text):
        if line and width + len(line) + len(part.rstrip()) > LINE_LENGTH:
            lines.append(line.rstrip())
            line = _CONTINUED
        line += part
    return [*lines, line.rstrip()]


def _parts(text: str) -> Iterator[str]:
    """Cut a statement where it may be broken: behind spaces outside of strings."""
    part, is_open = "", False
    for word in text.split(" "):
        if part and word and not is_open:
            yield part
            part = ""
        plain = word.replace("\\\\", "")
        is_open ^= (plain.count('"') - plain.count('\\"')) % 2 == 1
        part += f"{word} "
    yield part.removesuffix(" ")


def table(head: str, rows: Iterable[str]) -> list[str]:
    """``head = {row, row};``, a row a line."""
    lines = [f"{head} = {{"]
    for row in rows:
        first, *rest = statement(f"{row},", len(UNIT))
        lines += [UNIT + first, *(UNIT + line for line in rest)]
    return [*lines, "};"]
