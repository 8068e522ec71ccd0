"""Texts compared line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.diffing.model import TextChange
from wrapper_ir.diffing.sequences import common

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["text_changes"]


def text_changes(before: Sequence[str], after: Sequence[str]) -> tuple[TextChange, ...]:
    """The stretches of lines that are not the same."""
    found = []
    start_a = start_b = 0
    for end_a, end_b in (*common(before, after), (len(before), len(after))):
        if start_a < end_a or start_b < end_b:
            removed, added = tuple(before[start_a:end_a]), tuple(after[start_b:end_b])
            found.append(TextChange(start_b + 1, removed, added))
        start_a, start_b = end_a + 1, end_b + 1
    return tuple(found)
