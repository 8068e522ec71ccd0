"""``assign_offsets``: several planners, the cheapest first, until one reaches the lower bound.

Which of them run depends on the number of intervals and of pairs that share a time, and how far
they go on numbers of steps: never on a clock. The same intervals always get the same plan.

Two kinds are quick. A *sweep* is what an allocator with perfect knowledge of the present would do:
it goes along time, takes the best-fitting gap and gives it back at the end, in ``n log n`` steps,
and so is what is left for very long programs. It begins at the peak, where everything alive is
stacked without gaps, and goes both ways from there: whatever holes come about then are where there
is room for them. *Greedy* placement gives one interval after another the lowest gap among those
that share a time; what is hard to place goes first, and the order says what "hard" means. Of
recorded graphs all are at the lower bound then; where one is not, a search tries the same orders.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.planning.offsets.intervals import Problem
from wrapper_ir.planning.offsets.search import Outcome, Search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wrapper_ir.planning.offsets.intervals import Interval

ALIGNMENT: Final = 64
"""Bytes: the line of a cache, and the widest vector of a CPU."""

NODES: Final = 2_000_000
"""Nodes of the search where a caller does not say otherwise: at most about a minute."""

_MOST_SEARCHED: Final = 512
"""Intervals: up to here the search is tried."""

_ATTEMPT: Final = 10_000
"""Nodes of one search before the next order is tried."""

_SHUFFLES: Final = (0.03, 0.1)
"""How far orders are shuffled, in parts of their length."""

_FEW: Final = 1024
_GREEDY_PAIRS: Final = 1_500_000
_GREEDY_PAIRS_OF_MANY: Final = 200_000
"""Pairs that the greedy planners look at together, up to ``_FEW`` intervals and above."""

_BISECTIONS: Final = 6
_CLOSE_ENOUGH: Final = 2048
"""A height is not improved by less than one part in this many."""


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """Offset of each interval."""

    offsets: tuple[int, ...]
    """In bytes, multiples of the alignment, in the order in which the intervals were given.

    Intervals without bytes or without a time lie at 0.
    """
    height: int
    """Bytes that hold all of them, sizes rounded up to the alignment."""
    lower_bound: int
    """The most bytes alive at once, sizes rounded up likewise: no plan is lower."""
    winner: str
    """The planner whose plan it is."""

    @property
    def ratio(self) -> float:
        """Height over lower bound: 1.0 is the best there is."""
        return self.height / self.lower_bound if self.lower_bound else 1.0


def assign_offsets(
    intervals: Iterable[Interval],
    alignment: int = ALIGNMENT,
    *,
    nodes: int = NODES,
    progress: Callable[[str], None] | None = None,
) -> OffsetPlan:
    """Gives each interval a place so that those which share a time share no byte.

    Args:
        intervals: ``(lower, upper, size)``: needed at ``lower <= t < upper``, bytes.
        alignment: What offsets are multiples of, in bytes.
        nodes: Nodes that the exact search may visit when no other planner reaches the lower bound;
            0 is no search. It is tried for up to 512 intervals.
        progress: Called with a line of text whenever there is a better plan.

    Raises:
        IntervalError: an interval ends before it begins, or has less than no bytes.
        OptionValueError: the alignment is less than 1.
    """
    problem = Problem(intervals, alignment)
    best = _Best(problem, progress)
    _quick(best)
    if not best.is_perfect and nodes > 0 and len(problem) <= _MOST_SEARCHED:
        _exact(best, nodes)
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

    @property
    def is_perfect(self) -> bool:
        """True if the plan reaches the lower bound."""
        return bool(self.winner) and self.height == self.problem.lower_bound

    def offer(self, offsets: list[int], winner: str) -> bool:
        """Keeps a plan if it is better; tells whether no other could be."""
        height = self.problem.height(offsets)
        if not self.winner or height < self.height:
            self.offsets, self.height, self.winner = offsets, height, winner
            if self.progress is not None and self.problem.lower_bound:
                ratio = height / self.problem.lower_bound
                self.progress(f"{winner}: {height:,} bytes, {ratio:.4f} x the lower bound")
        return self.is_perfect


def _quick(best: _Best) -> None:
    """The planners that take no more than fractions of a second."""
    problem = best.problem
    if best.offer(swept(problem), "sweep from the peak"):
        return
    budget = _GREEDY_PAIRS if len(problem) <= _FEW else _GREEDY_PAIRS_OF_MANY
    for name, order in ORDERS.items():
        budget -= problem.pairs
        if budget < 0 or best.offer(placed(problem, order(problem)), f"by {name}"):
            return


def _exact(best: _Best, nodes: int) -> None:
    """Searches at the lower bound and, where that does not end, at heights in between."""
    low = best.problem.lower_bound
    half = _Budget(nodes // 2)
    if _improve(best, low, half):
        return
    rest = nodes // 2 + half.left
    for step in range(_BISECTIONS):
        if best.height - low <= best.height // _CLOSE_ENOUGH:
            return
        middle = (low + best.height) // 2
        share = _Budget(rest // (_BISECTIONS - step))
        if not _improve(best, middle, share):
            low = middle
        rest -= rest // (_BISECTIONS - step) - share.left


@dataclass(slots=True)
class _Budget:
    """Nodes that are left."""

    left: int


def _improve(best: _Best, height: int, budget: _Budget) -> bool:
    """Search for a plan of at most ``height``; keep it and return whether there is one."""
    for ranking, lowest, limit in _attempts(best.problem):
        if budget.left <= 0:
            return False
        search = Search(best.problem, height, ranking, lowest=lowest)
        outcome = search.run(min(limit, budget.left))
        budget.left -= search.nodes
        if outcome is Outcome.FOUND:
            best.offer(search.offsets, "search")
            return True
        if outcome is Outcome.IMPOSSIBLE:
            return False
    return False


def _attempts(problem: Problem) -> Iterator[tuple[list[int], bool, int]]:
    """Orders to search in without end: first the plain ones, then shuffled ones."""
    plain = [order(problem) for order in ORDERS.values()]
    limit, seed = _ATTEMPT, 0
    for ranking in plain:
        for lowest in (False, True):
            yield ranking, lowest, limit
    while True:
        for ranking in plain:
            for lowest in (False, True):
                for amount in _SHUFFLES:
                    seed += 1
                    yield _shuffled(ranking, amount, seed), lowest, limit
        limit = limit * 3 // 2


def _shuffled(ranking: list[int], amount: float, seed: int) -> list[int]:
    """An order in which each moved by less than ``amount`` of the whole."""
    draw = random.Random(seed).random
    reach = amount * len(ranking)
    keys = [position + draw() * reach for position in range(len(ranking))]
    return [ranking[at] for at in sorted(range(len(ranking)), key=keys.__getitem__)]


# Greedy placement.


def placed(problem: Problem, order: list[int]) -> list[int]:
    """Offsets from placing in ``order``, each in the lowest gap that fits."""
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
"""Every order by its name, most first: of the bytes alive with an interval, and the peak of these,
the last two."""


# The sweep from the peak.


def swept(problem: Problem) -> list[int]:
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
    mirrored = [-end for end in upper], [-start for start in lower]
    _Sweep(*mirrored, size, offsets).run(alive, before)
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
