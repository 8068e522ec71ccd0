"""Texts compared line by line, and emitted ones by section: a function, or the text between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.diffing.model import Kind, SourceChange, SourceDiff, TextChange
from wrapper_ir.diffing.sequences import Match, Matcher, common

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Section: TypeAlias = tuple[str, ...]

_CLOSING: Final = (")", "]", "}")


def text_changes(before: Sequence[str], after: Sequence[str]) -> tuple[TextChange, ...]:
    """Return the stretches of lines that are not the same."""
    found = []
    start_a = start_b = 0
    for end_a, end_b in (*common(before, after), (len(before), len(after))):
        if start_a < end_a or start_b < end_b:
            removed, added = tuple(before[start_a:end_a]), tuple(after[start_b:end_b])
            found.append(TextChange(start_b + 1, removed, added))
        start_a, start_b = end_a + 1, end_b + 1
    return tuple(found)


def diff_sources(before: str, after: str, target: str) -> SourceDiff:
    """Compare two emitted texts.

    Args:
        before: The first text.
        after: The second.
        target: The emitter that wrote them, for whoever reads the diff.
    """
    a, b = list(_sections(before)), list(_sections(after))
    matcher = Matcher(len(a), len(b))
    names = ([_name(section) for section in each] for each in (a, b))
    columns = ((a, b), tuple(names))
    for step in (matcher.in_order, matcher.anywhere):
        for column in columns:
            step(*column)
    matcher.by_place()
    lengths = len(before.splitlines()), len(after.splitlines())
    return SourceDiff(target, *lengths, tuple(_changes(a, b, matcher.done())))


def _changes(a: list[Section], b: list[Section], found: Match) -> Iterator[SourceChange]:
    for kind, i, j in found.fates():
        old, new = () if i is None else a[i], () if j is None else b[j]
        changes = text_changes(old, new)
        if changes or kind is not Kind.CHANGED:
            yield SourceChange(kind, _name(old if j is None else new), changes)


def _sections(text: str) -> Iterator[Section]:
    """Cut a text where, after an empty line, something begins at the margin."""
    section: list[str] = []
    is_after_blank = True
    for line in text.splitlines():
        if is_after_blank and line and not line.startswith((" ", "\t", *_CLOSING)) and section:
            yield _trimmed(section)
            section = []
        section.append(line)
        is_after_blank = not line
    if section:
        yield _trimmed(section)


def _trimmed(section: list[str]) -> Section:
    while section and not section[-1]:
        section.pop()
    return tuple(section)


def _name(section: Section) -> str:
    """Return the first line that is no remark."""
    plain = (line for line in section if line and not line.startswith(("#", "//")))
    return next(plain, section[0] if section else "")
