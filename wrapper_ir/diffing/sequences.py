"""Sequences compared: the longest common subsequence of two, and texts line by line."""

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
# Convention: elements are compared by *keys*, equal where the elements mean the same. The longest
# common subsequence is exact as long as a key does not stand in many places; where it does
# (``free`` stands in thousands), each place is tried against its nearest counterparts only. That
# keeps the cost near ``n log n``.

Pairs: TypeAlias = list[tuple[int, int]]

Fate: TypeAlias = tuple[Kind, int | None, int | None]
"""The kind of change of an element, and its position in each of two sequences."""

_NEAREST: Final = 8


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    """Return positions of equal keys in two sequences, both growing; as many as can be found."""
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
    """Yield pairs of equal keys: by the place in ``a``, for each from the last place in ``b``."""
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
    """Return the longest chain of pairs that grows on both sides (Hunt and Szymanski)."""
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
    """The elements of two sequences, matched.

    Attributes:
        pairs: Positions of elements that are each other's, growing on both sides.
        moved: The same of elements that stand elsewhere.
        removed: Positions of elements that only the first sequence has.
        added: Positions of elements that only the second has.
    """

    pairs: Pairs
    moved: Pairs
    removed: list[int]
    added: list[int]

    @property
    def all(self) -> Pairs:
        """Return every pair, by the place in the first sequence."""
        return sorted(self.pairs + self.moved)

    def fates(self) -> Iterator[Fate]:
        """Yield the fates of all elements, those of pairs first."""
        moved = set(self.moved)
        for pair in self.all:
            yield (Kind.MOVED if pair in moved else Kind.CHANGED), *pair
        yield from ((Kind.REMOVED, i, None) for i in self.removed)
        yield from ((Kind.ADDED, None, j) for j in self.added)


class Matcher:
    """Matches two sequences step by step, by keys that say less each time.

    Args:
        length_a: Length of the first sequence.
        length_b: Length of the second.
    """

    def __init__(self, length_a: int, length_b: int) -> None:
        self._lengths = (length_a, length_b)
        self._pairs: Pairs = []
        self._moved: Pairs = []

    def in_order(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Match equal keys between the pairs that there are; None equals nothing."""
        taken_a, taken_b = self._taken()
        found = list(self._pairs)
        start_a = start_b = 0
        for end_a, end_b in (*self._pairs, self._lengths):
            if start_a < end_a and start_b < end_b:
                left_a = [i for i in range(start_a, end_a) if i not in taken_a and a[i] is not None]
                left_b = [j for j in range(start_b, end_b) if j not in taken_b and b[j] is not None]
                new = common([a[i] for i in left_a], [b[j] for j in left_b])
                found += [(left_a[i], left_b[j]) for i, j in new]
            start_a, start_b = end_a + 1, end_b + 1
        self._pairs = sorted(found)

    def anywhere(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Match equal keys wherever they stand, as moved; None equals nothing."""
        taken_a, taken_b = self._taken()
        places: dict[Hashable, list[int]] = defaultdict(list)
        for j in reversed(range(len(b))):
            if j not in taken_b and b[j] is not None:
                places[b[j]].append(j)
        for i, key in enumerate(a):
            if i not in taken_a and places.get(key):
                self._moved.append((i, places[key].pop()))

    def add(self, pairs: Pairs) -> None:
        """Match what was found to belong together by other means."""
        self._moved += pairs

    def by_place(self) -> None:
        """Match the elements left between pairs, the first with the first."""
        self.in_order(*([0] * length for length in self._lengths))

    def done(self) -> Match:
        """Return the match so far."""
        left = zip(self._lengths, self._taken(), strict=True)
        removed, added = ([n for n in range(length) if n not in taken] for length, taken in left)
        return Match(self._pairs, list(self._moved), removed, added)

    def _taken(self) -> tuple[set[int], set[int]]:
        pairs = (*self._pairs, *self._moved)
        return {i for i, _ in pairs}, {j for _, j in pairs}


# Texts compared line by line, and emitted ones by section: a function, or the text between two.

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
