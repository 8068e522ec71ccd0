"""What two long sequences have in common, in order.

Convention: elements are compared by *keys*, small integers that are equal where the elements mean
the same. The longest common subsequence is exact as long as a key does not stand in many places;
where it does (``free`` stands in thousands), each place is tried against its nearest counterparts
only. That keeps the cost near ``n log n``.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

__all__ = ["Match", "Matcher", "common"]

_NEAREST: Final = 8


class Gap(NamedTuple):
    """A range of each of two sequences, ends excluded."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of equal keys in two sequences, both growing; as many as can be found."""
    low_a, high_a, low_b, high_b = 0, len(a), 0, len(b)
    first, last = [], []
    while low_a < high_a and low_b < high_b and a[low_a] == b[low_b]:
        first.append((low_a, low_b))
        low_a, low_b = low_a + 1, low_b + 1
    while low_a < high_a and low_b < high_b and a[high_a - 1] == b[high_b - 1]:
        high_a, high_b = high_a - 1, high_b - 1
        last.append((high_a, high_b))
    middle = _longest(list(_candidates(a, b, Gap(low_a, high_a, low_b, high_b))))
    return [*first, *middle, *reversed(last)]


def _candidates(
    a: Sequence[Hashable], b: Sequence[Hashable], gap: Gap
) -> Iterator[tuple[int, int]]:
    """Pairs of equal keys: by the place in ``a``, and for each place from the last of ``b``."""
    places: dict[Hashable, list[int]] = {}
    for position in range(gap.start_b, gap.end_b):
        places.setdefault(b[position], []).append(position)
    met: dict[Hashable, int] = {}
    for position in range(gap.start_a, gap.end_a):
        key = a[position]
        found = places.get(key)
        if found is None:
            continue
        rank = met[key] = met.get(key, -1) + 1
        near = found
        if len(found) > 2 * _NEAREST:
            start = min(max(rank - _NEAREST, 0), len(found) - 2 * _NEAREST)
            near = found[start : start + 2 * _NEAREST]
        for other in reversed(near):
            yield position, other


def _longest(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of pairs that grows on both sides (Hunt and Szymanski)."""
    ends: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for number, (_, other) in enumerate(pairs):
        place = bisect_left(ends, other)
        before.append(tops[place - 1] if place else -1)
        if place == len(ends):
            ends.append(other)
            tops.append(number)
        else:
            ends[place], tops[place] = other, number
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

    pairs: tuple[tuple[int, int], ...]
    moved: tuple[tuple[int, int], ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]

    @property
    def all(self) -> tuple[tuple[int, int], ...]:
        """Every pair, by the place in the first sequence."""
        return tuple(sorted((*self.pairs, *self.moved)))


class Matcher:
    """Matches two sequences step by step, by keys that say less each time.

    Args:
        length_a: How long the first sequence is.
        length_b: How long the second is.
    """

    def __init__(self, length_a: int, length_b: int) -> None:
        self._lengths = (length_a, length_b)
        self._pairs: list[tuple[int, int]] = []
        self._moved: list[tuple[int, int]] = []

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left on one side."""
        return len(self._pairs) + len(self._moved) == min(self._lengths)

    def in_order(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Matches what has equal keys between the pairs that there are; None equals nothing."""
        found = list(self._pairs)
        taken_a, taken_b = self._taken()
        for gap in _gaps(self._pairs, *self._lengths):
            left_a = [i for i in range(*gap[:2]) if i not in taken_a and a[i] is not None]
            left_b = [j for j in range(*gap[2:]) if j not in taken_b and b[j] is not None]
            new = common([a[i] for i in left_a], [b[j] for j in left_b])
            found += [(left_a[i], left_b[j]) for i, j in new]
        self._pairs = sorted(found)

    def anywhere(self, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Matches what has equal keys wherever it stands: that has moved."""
        taken_a, taken_b = self._taken()
        places: dict[Hashable, list[int]] = {}
        for j in range(len(b) - 1, -1, -1):
            if j not in taken_b:
                places.setdefault(b[j], []).append(j)
        for i, key in enumerate(a):
            if i not in taken_a and places.get(key):
                self._moved.append((i, places[key].pop()))

    def by_place(self) -> None:
        """Matches what is left between pairs, the first with the first."""
        self.in_order(*([0] * length for length in self._lengths))

    def done(self) -> Match:
        """What was found."""
        taken_a, taken_b = self._taken()
        length_a, length_b = self._lengths
        return Match(
            tuple(self._pairs),
            tuple(self._moved),
            tuple(i for i in range(length_a) if i not in taken_a),
            tuple(j for j in range(length_b) if j not in taken_b),
        )

    def _taken(self) -> tuple[set[int], set[int]]:
        pairs = (*self._pairs, *self._moved)
        return {i for i, _ in pairs}, {j for _, j in pairs}


def _gaps(pairs: Sequence[tuple[int, int]], length_a: int, length_b: int) -> Iterator[Gap]:
    """What lies between pairs, before the first and after the last, where both sides have some."""
    start_a = start_b = 0
    for end_a, end_b in (*pairs, (length_a, length_b)):
        if start_a < end_a and start_b < end_b:
            yield Gap(start_a, end_a, start_b, end_b)
        start_a, start_b = end_a + 1, end_b + 1
