"""Comparing sequences: the longest common subsequence, and texts line by line."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.diffing.model import Kind, SourceChange, SourceDiff, TextChange

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence


# The longest common subsequence of two long sequences, and matches made of several of them.
#
# Convention: elements are compared by *keys*, which are equal if the elements mean the same. The
# result is exact unless a key occurs in many places. Each occurrence of such a key (``free`` has
# thousands) is only tried against its nearest counterparts, which keeps the cost near ``n log n``.

Pairs: TypeAlias = list[tuple[int, int]]

Fate: TypeAlias = tuple[Kind, int | None, int | None]
"""The kind of change to an element, and its position in each of the two sequences."""

_NEAREST: Final = 8


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    """Return the positions of a longest common subsequence of two sequences of keys."""
    low, end_a, end_b = 0, len(a), len(b)
    while low < min(end_a, end_b) and a[low] == b[low]:
        low += 1
    while low < min(end_a, end_b) and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
    middle = _longest(list(_candidates(a, b, range(low, end_a), range(low, end_b))))
    last = zip(range(end_a, len(a)), range(end_b, len(b)), strict=True)
    return [*((n, n) for n in range(low)), *middle, *last]


def _candidates(
    a: Sequence[Hashable], b: Sequence[Hashable], in_a: range, in_b: range
) -> Iterator[tuple[int, int]]:
    """Yield the positions of equal keys, ascending in ``a``, and then descending in ``b``."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for position in in_b:
        places[b[position]].append(position)
    met: dict[Hashable, int] = defaultdict(int)
    for position in in_a:
        near = places.get(a[position], [])
        rank = met[a[position]]
        met[a[position]] += 1
        if len(near) > 2 * _NEAREST:
            start = min(max(rank - _NEAREST, 0), len(near) - 2 * _NEAREST)
            near = near[start : start + 2 * _NEAREST]
        for other in reversed(near):
            yield position, other


def _longest(pairs: Pairs) -> Pairs:
    """Return the longest chain of pairs that increases on both sides (Hunt and Szymanski)."""
    ends: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for number, (_, other) in enumerate(pairs):
        place = bisect_left(ends, other)
        before.append(tops[place - 1] if place else -1)
        ends[place : place + 1] = [other]
        tops[place : place + 1] = [number]
    chain = []
    number = tops[-1] if tops else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


@dataclass(frozen=True, slots=True)
class Match:
    """The positions of matched elements of two sequences, and of those that only one has."""

    pairs: Pairs  # increasing on both sides
    moved: Pairs  # out of order
    removed: list[int]
    added: list[int]

    @property
    def all(self) -> Pairs:
        """All pairs, ordered by position in the first sequence."""
        return sorted(self.pairs + self.moved)

    def fates(self) -> Iterator[Fate]:
        """Yield the fates of all elements, starting with those of pairs."""
        moved = set(self.moved)
        for pair in self.all:
            yield (Kind.MOVED if pair in moved else Kind.CHANGED), *pair
        yield from ((Kind.REMOVED, i, None) for i in self.removed)
        yield from ((Kind.ADDED, None, j) for j in self.added)


class Matcher:
    """Matches two sequences of the given lengths step by step, with ever weaker keys."""

    def __init__(self, length_a: int, length_b: int) -> None:
        self._lengths = (length_a, length_b)
        self._pairs: Pairs = []
        self._moved: Pairs = []

    def in_order(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Match equal keys between the existing pairs; None equals nothing."""
        taken_a, taken_b = self._taken()
        pairs = list(self._pairs)
        start_a = start_b = 0
        for end_a, end_b in (*self._pairs, self._lengths):
            if start_a < end_a and start_b < end_b:
                left_a = [i for i in range(start_a, end_a) if i not in taken_a and a[i] is not None]
                left_b = [j for j in range(start_b, end_b) if j not in taken_b and b[j] is not None]
                new = common([a[i] for i in left_a], [b[j] for j in left_b])
                pairs += [(left_a[i], left_b[j]) for i, j in new]
            start_a, start_b = end_a + 1, end_b + 1
        self._pairs = sorted(pairs)

    def anywhere(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Match equal keys anywhere, as moved elements; None equals nothing."""
        taken_a, taken_b = self._taken()
        places: dict[Hashable, list[int]] = defaultdict(list)
        for j in reversed(range(len(b))):
            if j not in taken_b and b[j] is not None:
                places[b[j]].append(j)
        for i, key in enumerate(a):
            if i not in taken_a and places.get(key):
                self._moved.append((i, places[key].pop()))

    def add(self, pairs: Pairs) -> None:
        """Add pairs that were matched by other means, as moved elements."""
        self._moved += pairs

    def by_place(self) -> None:
        """Match the remaining elements between pairs by position."""
        self.in_order(*([0] * length for length in self._lengths))

    def done(self) -> Match:
        """Return the match so far."""
        left = zip(self._lengths, self._taken(), strict=True)
        removed, added = ([n for n in range(length) if n not in taken] for length, taken in left)
        return Match(self._pairs, list(self._moved), removed, added)

    def _taken(self) -> tuple[set[int], set[int]]:
        pairs = (*self._pairs, *self._moved)
        return {i for i, _ in pairs}, {j for _, j in pairs}


# Comparing texts line by line, and emitted texts by section: a function, or the text between two.

Section: TypeAlias = tuple[str, ...]

_CLOSING: Final = (")", "]", "}")


def text_changes(before: Sequence[str], after: Sequence[str]) -> tuple[TextChange, ...]:
    """Return the ranges of lines that differ."""
    changes = []
    start_a = start_b = 0
    for end_a, end_b in (*common(before, after), (len(before), len(after))):
        if start_a < end_a or start_b < end_b:
            removed, added = tuple(before[start_a:end_a]), tuple(after[start_b:end_b])
            changes.append(TextChange(start_b + 1, removed, added))
        start_a, start_b = end_a + 1, end_b + 1
    return tuple(changes)


def diff_sources(before: str, after: str, target: str) -> SourceDiff:
    """Compare two emitted texts.

    Args:
        before: The first text.
        after: The second text.
        target: The emitter that wrote them, which the diff names.
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


def _changes(a: list[Section], b: list[Section], match: Match) -> Iterator[SourceChange]:
    for kind, i, j in match.fates():
        old, new = () if i is None else a[i], () if j is None else b[j]
        changes = text_changes(old, new)
        if changes or kind is not Kind.CHANGED:
            yield SourceChange(kind, _name(old if j is None else new), changes)


def _sections(text: str) -> Iterator[Section]:
    """Split a text before each unindented line that follows an empty line."""
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
    """Return the first line that is not a comment."""
    plain = (line for line in section if line and not line.startswith(("#", "//")))
    return next(plain, section[0] if section else "")
