"""Placement of intervals: several planners, the cheapest first, until one meets the lower bound.

The number of intervals and of overlapping pairs decides which of them run; a clock never does. The
same intervals always get the same plan.

A *sweep* works as a best-fit allocator would: it goes along time, takes the
best-fitting gap and returns it at the end, in ``n log n`` steps. It is the only method for very
long programs. It starts at the peak, where all live intervals are stacked without gaps, and goes
both ways from there, so that holes form only where there is room for them. *Greedy* placement puts
one interval after another into the lowest gap among those that overlap it in time, the hardest to
place first; the orders differ in what counts as hard. They reach the lower bound for all recorded
graphs (ADR 0023 has the figures, and what an exact search gained elsewhere).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wrapper_ir.planning.intervals import (
    Interval,
    IntervalError,
    IntervalFileError,
    IntervalTable,
    PlanError,
    Problem,
    check_offsets,
    read_intervals,
    write_intervals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["ALIGNMENT", "Interval", "IntervalError", "IntervalFileError", "IntervalTable"]
__all__ += ["OffsetPlan", "PlanError", "assign_offsets", "check_offsets", "read_intervals"]
__all__ += ["write_intervals"]

ALIGNMENT: Final = 64
"""Bytes of a cache line, and of the widest CPU vector."""

_FEW: Final = 1024
_GREEDY_PAIRS: Final = 1_500_000
_GREEDY_PAIRS_OF_MANY: Final = 200_000
"""The most pairs that all greedy planners visit, up to ``_FEW`` intervals and above."""


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """The offset of each interval."""

    offsets: tuple[int, ...]
    """Aligned offsets in bytes, in the order of the intervals.

    Intervals with no bytes or an empty lifetime are at 0.
    """
    height: int
    """Bytes that hold all intervals, with sizes rounded up to the alignment."""
    lower_bound: int
    """The most bytes alive at once, with the same rounding. No plan is lower."""
    winner: str
    """The planner that made the plan."""

    @property
    def ratio(self) -> float:
        """Height over lower bound: 1.0 is optimal."""
        return self.height / self.lower_bound if self.lower_bound else 1.0


def assign_offsets(
    intervals: Iterable[Interval],
    alignment: int = ALIGNMENT,
    *,
    progress: Callable[[str], None] | None = None,
) -> OffsetPlan:
    """Place intervals so that those that overlap in time share no byte.

    Args:
        intervals: ``(lower, upper, size)``: bytes needed at ``lower <= t < upper``.
        alignment: The alignment of offsets, in bytes.
        progress: Called with a line of text for each better plan.

    Raises:
        IntervalError: An interval ends before it begins, or its size is negative.
        OptionValueError: The alignment is less than 1.
    """
    problem = Problem(intervals, alignment)
    best = _Best(problem, progress)
    _run(best)
    offsets = [0] * problem.given
    for number, offset in zip(problem.number, best.offsets, strict=True):
        offsets[number] = offset
    return OffsetPlan(tuple(offsets), best.height, problem.lower_bound, best.winner)


class _Best:
    """The best plan so far."""

    def __init__(self, problem: Problem, progress: Callable[[str], None] | None) -> None:
        self.problem = problem
        self.progress = progress
        self.offsets: list[int] = []
        self.height = 0
        self.winner = ""

    def offer(self, offsets: list[int], winner: str) -> bool:
        """Keep a plan if it is better; return whether the best one is now optimal."""
        height = self.problem.height(offsets)
        if not self.winner or height < self.height:
            self.offsets, self.height, self.winner = offsets, height, winner
            if self.progress is not None and self.problem.lower_bound:
                ratio = height / self.problem.lower_bound
                self.progress(f"{winner}: {height:,} bytes, {ratio:.4f} x the lower bound")
        return self.height == self.problem.lower_bound


def _run(best: _Best) -> None:
    """Run the planners, until one reaches the lower bound."""
    problem = best.problem
    if best.offer(swept(problem), "sweep from the peak"):
        return
    budget = _GREEDY_PAIRS if len(problem) <= _FEW else _GREEDY_PAIRS_OF_MANY
    for name, order in ORDERS.items():
        budget -= problem.pairs
        if budget < 0 or best.offer(placed(problem, order(problem)), f"by {name}"):
            return


# Greedy placement.


def placed(problem: Problem, order: list[int]) -> list[int]:
    """Place intervals in ``order``, each in the lowest gap that fits, and return offsets."""
    offsets = [-1] * len(problem)
    sizes, neighbours = problem.size, problem.neighbours
    for i in order:
        end = 0
        taken = sorted((offsets[j], sizes[j]) for j in neighbours[i] if offsets[j] >= 0)
        for start, nbytes in taken:
            if start - end >= sizes[i]:
                break
            end = max(end, start + nbytes)
        offsets[i] = end
    return offsets


def _by_size(problem: Problem) -> list[int]:
    size, lower, upper = problem.size, problem.lower, problem.upper
    return _descending(problem, lambda i: (size[i], upper[i] - lower[i]))


def _by_area(problem: Problem) -> list[int]:
    size, lower, upper = problem.size, problem.lower, problem.upper
    return _descending(problem, lambda i: (size[i] * (upper[i] - lower[i]), size[i]))


def _by_contention(problem: Problem) -> list[int]:
    size, neighbours = problem.size, problem.neighbours
    return _descending(problem, lambda i: (size[i] + sum(size[j] for j in neighbours[i]), size[i]))


def _by_breadth(problem: Problem) -> list[int]:
    first, behind, count = problem.sections
    breadth = [0] * count
    for i, size in enumerate(problem.size):
        for section in range(first[i], behind[i]):
            breadth[section] += size
    return _descending(problem, lambda i: (max(breadth[first[i] : behind[i]]), problem.size[i]))


def _descending(problem: Problem, key: Callable[[int], tuple[int, int]]) -> list[int]:
    return sorted(range(len(problem)), key=lambda i: (*(-part for part in key(i)), i))


ORDERS: Final[dict[str, Callable[[Problem], list[int]]]] = {
    "size": _by_size,
    "size x duration": _by_area,
    "contention": _by_contention,
    "breadth": _by_breadth,
}
"""Orders by name. ``contention`` is the sum of the bytes that overlap an interval, ``breadth`` the
most bytes alive during it."""


# The sweep from the peak.


def swept(problem: Problem) -> list[int]:
    """Place intervals by two sweeps from the peak, and return offsets."""
    _, peak = problem.peak
    lower, upper, size = problem.lower, problem.upper, problem.size
    alive = [i for i in range(len(size)) if lower[i] <= peak < upper[i]]
    # The longest-lived go to the bottom, so that short-lived ones leave holes at the top.
    alive.sort(key=lambda i: (lower[i] - upper[i], -size[i], i))
    offsets = [-1] * len(size)
    top = 0
    for i in alive:
        offsets[i] = top
        top += size[i]
    after = [i for i in range(len(size)) if lower[i] > peak]
    _Sweep(lower, upper, size, offsets).run(alive, after)
    before = [i for i in range(len(size)) if upper[i] <= peak]
    mirrored = [-end for end in upper], [-start for start in lower]
    _Sweep(*mirrored, size, offsets).run(alive, before)
    return offsets


@dataclass(slots=True)
class _Sweep:
    """One sweep over time that fills in ``offsets``."""

    lower: list[int]
    upper: list[int]
    size: list[int]
    offsets: list[int]
    #: Sorted gaps below the top as (bytes, start), and the end and start of each gap.
    gaps: list[tuple[int, int]] = field(default_factory=list)
    end_of: dict[int, int] = field(default_factory=dict)
    start_of: dict[int, int] = field(default_factory=dict)
    top: int = 0

    def run(self, alive: list[int], coming: list[int]) -> None:
        """Place ``coming``; ``alive`` is stacked from 0 up without gaps."""
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
        """Take the smallest gap that is large enough, else the top; return its start."""
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
        """Free a range and merge it with adjacent gaps; one at the top lowers the top."""
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
