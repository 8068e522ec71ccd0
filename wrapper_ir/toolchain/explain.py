"""Excerpts of source that does not compile: the lines in question, and the first messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["excerpt", "offending_lines", "shortened"]

#: Compiler messages that stand for all that follow.
_MAX_MESSAGES = 12
#: Templates have names of kilobytes.
_MAX_COLUMNS = 300
_CONTEXT = 2  #: source lines shown before and after an offending one


def offending_lines(file: str, output: str) -> list[int]:
    """Return the numbers of the lines of a file that a compiler calls wrong, each once."""
    found = re.findall(rf"^{re.escape(file)}:(\d+):.*error", output, flags=re.MULTILINE)
    return list(dict.fromkeys(int(number) for number in found))


def excerpt(code: str, offending: Sequence[int]) -> str:
    """Return the offending lines of a text with their neighbours and numbers."""
    lines = code.splitlines()
    shown: dict[int, str] = {}
    for number in offending or [1]:
        for near in range(number - _CONTEXT, number + _CONTEXT + 1):
            if 1 <= near <= len(lines):
                mark = ">" if near in offending else " "
                shown[near] = f"{mark} {near:4} | {lines[near - 1]}"
    return "\n".join(shown[number] for number in sorted(shown))


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_COLUMNS else f"{line[:_MAX_COLUMNS]}..."


def shortened(output: str) -> str:
    """Return the beginning of what a compiler said, and how much more there was."""
    lines = [_cut(line) for line in output.splitlines()]
    if len(lines) <= 4 * _MAX_MESSAGES:
        return "\n".join(lines)
    kept = lines[: 4 * _MAX_MESSAGES]
    return "\n".join([*kept, f"... and {len(lines) - len(kept)} lines more"])
