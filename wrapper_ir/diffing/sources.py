"""Emitted texts compared: section by section, a section being a function or what is between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.diffing.model import Kind, SourceChange, SourceDiff
from wrapper_ir.diffing.sequences import Match, Matcher
from wrapper_ir.diffing.texts import text_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["diff_sources"]

Section: TypeAlias = tuple[str, ...]

_CLOSING: Final = (")", "]", "}")


def diff_sources(before: str, after: str, target: str) -> SourceDiff:
    """How two emitted texts differ.

    Args:
        before: The first text.
        after: The second.
        target: What they were emitted for, for whoever reads the diff.
    """
    a, b = list(_sections(before)), list(_sections(after))
    matcher = Matcher(len(a), len(b))
    matcher.in_order(a, b)
    matcher.in_order(*([_name(section) for section in each] for each in (a, b)))
    matcher.anywhere(a, b)
    matcher.anywhere(*([_name(section) for section in each] for each in (a, b)))
    matcher.by_place()
    return SourceDiff(
        target,
        len(before.splitlines()),
        len(after.splitlines()),
        tuple(_changes(a, b, matcher.done())),
    )


def _changes(a: list[Section], b: list[Section], found: Match) -> Iterator[SourceChange]:
    for i, j in found.all:
        changes = text_changes(a[i], b[j])
        if (i, j) in found.moved:
            yield SourceChange(Kind.MOVED, _name(b[j]), changes)
        elif changes:
            yield SourceChange(Kind.CHANGED, _name(b[j]), changes)
    for i in found.removed:
        yield SourceChange(Kind.REMOVED, _name(a[i]), text_changes(a[i], ()))
    for j in found.added:
        yield SourceChange(Kind.ADDED, _name(b[j]), text_changes((), b[j]))


def _sections(text: str) -> Iterator[Section]:
    """The text cut where, after an empty line, something begins at the margin."""
    section: list[str] = []
    is_after_blank = True
    for line in text.splitlines():
        if is_after_blank and line and not line.startswith((" ", "\t", *_CLOSING)) and section:
            yield tuple(_trimmed(section))
            section = []
        section.append(line)
        is_after_blank = not line
    if section:
        yield tuple(_trimmed(section))


def _trimmed(section: list[str]) -> list[str]:
    while section and not section[-1]:
        section.pop()
    return section


def _name(section: Section) -> str:
    """The first line that is no remark."""
    plain = (line for line in section if line and not line.startswith(("#", "//")))
    return next(plain, section[0] if section else "")
