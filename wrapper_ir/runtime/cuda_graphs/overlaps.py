"""Whether inputs that a captured graph copies share memory with others.

A call in which a tensor that is written to shares memory with another cannot be replayed if one of
the two is copied: the graph would write to the copy alone. Inputs that are used in place are where
they were when the graph was captured, so each call looks at those that are copied.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from wrapper_ir.runtime.apart import meet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


class _Spans:
    """Spans of addresses, joined where they meet and in order."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def have_any_of(self, start: int, end: int) -> bool:
        """Return whether an address of another span is in one of these."""
        first = bisect_right(self._ends, start)  # that ends after the other one starts
        return first < len(self._starts) and self._starts[first] < end


class Overlaps:
    """Whether inputs that are copied share memory, with each other or with those in place.

    Args:
        copied: Positions of inputs that are copied.
        writes: Positions of inputs that the program writes to.
        fixed: Addresses of inputs that are used in place, by position.
        extents: The bytes that each tensor spans, by position.
    """

    def __init__(
        self,
        copied: Iterable[int],
        writes: Collection[int],
        fixed: Mapping[int, int],
        extents: Mapping[int, int],
    ) -> None:
        spans = {n: (start, start + extents[n]) for n, start in fixed.items() if extents[n]}
        everything, written = _Spans(spans.values()), _Spans(spans[n] for n in spans if n in writes)
        #: Position, bytes, whether it is written to, and what it must be apart from.
        self._copied = [
            (n, extents[n], n in writes, everything if n in writes else written)
            for n in (copied if writes else ())
            if extents[n]
        ]
        self._write_to_copied = any(is_written for _, _, is_written, _ in self._copied)

    def are_in(self, args: Sequence[Any]) -> bool:
        """Return whether tensors of a call overlap."""
        found = []
        for n, extent, is_written, others in self._copied:
            start = args[n].data_ptr()
            if others.have_any_of(start, start + extent):
                return True
            found.append((start, start + extent, is_written))
        if not self._write_to_copied:
            return False
        found.sort()
        if all(first[1] <= second[0] for first, second in pairwise(found)):
            return False
        return any(
            (one[2] or other[2]) and meet(one[:2], other[:2])
            for one, other in combinations(found, 2)
        )
