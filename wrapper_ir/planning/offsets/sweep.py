"""Planning by going along time: take the best-fitting gap, give it back at the end.

This is what an allocator with perfect knowledge of the present would do. It takes ``n log n`` steps
and so is what is left for very long programs. Going forward and backward in time are two plans;
a third begins at the peak, where everything alive is stacked without gaps, and goes both ways from
there: whatever holes come about then are where there is room for them.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wrapper_ir.planning.offsets.intervals import Problem


def forward(problem: Problem) -> list[int]:
    """Offsets from a sweep along time."""
    return _swept(problem.lower, problem.upper, problem.size)


def backward(problem: Problem) -> list[int]:
    """Offsets from a sweep against time."""
    lower, upper = _mirrored(problem.lower, problem.upper)
    return _swept(lower, upper, problem.size)


def from_peak(problem: Problem) -> list[int]:
    """Offsets from two sweeps that begin at the peak."""
    _, peak = problem.peak
    lower, upper, size = problem.lower, problem.upper, problem.size
    alive = [i for i in range(len(size)) if lower[i] <= peak < upper[i]]
    # What lives longest goes to the bottom, so that what goes early leaves holes at the top.
    alive.sort(key=lambda i: (lower[i] - upper[i], -size[i], i))
    offsets = [-1] * len(size)
    top = 0
    for i in alive:
        offsets[i] = top
        top += size[i]
    after = [i for i in range(len(size)) if lower[i] > peak]
    _Sweep(lower, upper, size, offsets).run(alive, after)
    before = [i for i in range(len(size)) if upper[i] <= peak]
    back_lower, back_upper = _mirrored(lower, upper)
    _Sweep(back_lower, back_upper, size, offsets).run(alive, before)
    return offsets


def _mirrored(lower: list[int], upper: list[int]) -> tuple[list[int], list[int]]:
    return [-end for end in upper], [-start for start in lower]


def _swept(lower: list[int], upper: list[int], size: list[int]) -> list[int]:
    offsets = [-1] * len(size)
    _Sweep(lower, upper, size, offsets).run([], list(range(len(size))))
    return offsets


class _Sweep:
    """One sweep over time that fills in ``offsets``."""

    def __init__(
        self, lower: list[int], upper: list[int], size: list[int], offsets: list[int]
    ) -> None:
        self.lower = lower
        self.upper = upper
        self.size = size
        self.offsets = offsets
        #: Free room below the top: (bytes, start), sorted; and where each gap ends and begins.
        self.gaps: list[tuple[int, int]] = []
        self.end_of: dict[int, int] = {}
        self.start_of: dict[int, int] = {}
        self.top = 0

    def run(self, alive: list[int], coming: list[int]) -> None:
        """Gives offsets to ``coming``; ``alive`` is stacked from 0 up without gaps."""
        size, offsets, upper, lower = self.size, self.offsets, self.upper, self.lower
        self.top = sum(size[i] for i in alive)
        ends = [(upper[i], i) for i in alive]
        heapq.heapify(ends)
        for i in sorted(coming, key=lambda i: (lower[i], -size[i], i)):
            while ends and ends[0][0] <= lower[i]:
                ended = heapq.heappop(ends)[1]
                self.release(offsets[ended], offsets[ended] + size[ended])
            offsets[i] = self.take(size[i])
            heapq.heappush(ends, (upper[i], i))

    def take(self, nbytes: int) -> int:
        """The start of the smallest gap that is large enough, else the top."""
        at = bisect_left(self.gaps, (nbytes, -1))
        if at == len(self.gaps):
            start = self.top
            self.top += nbytes
            return start
        room, start = self.gaps.pop(at)
        end = start + room
        del self.end_of[start], self.start_of[end]
        if room > nbytes:
            self.add_gap(start + nbytes, end)
        return start

    def release(self, start: int, end: int) -> None:
        """Gives room back, joined with the gaps beside it; at the top it lowers the top."""
        below = self.start_of.get(start)
        if below is not None:
            self.drop_gap(below, start)
            start = below
        above = self.end_of.get(end)
        if above is not None:
            self.drop_gap(end, above)
            end = above
        if end == self.top:
            self.top = start
        else:
            self.add_gap(start, end)

    def add_gap(self, start: int, end: int) -> None:
        insort(self.gaps, (end - start, start))
        self.end_of[start] = end
        self.start_of[end] = start

    def drop_gap(self, start: int, end: int) -> None:
        del self.gaps[bisect_left(self.gaps, (end - start, start))]
        del self.end_of[start], self.start_of[end]
