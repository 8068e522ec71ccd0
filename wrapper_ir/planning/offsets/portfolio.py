"""``assign_offsets``: several planners, the cheapest first, until one reaches the lower bound.

Which of them run depends on the number of intervals and of pairs that share a time, and how far
they go on numbers of steps: never on a clock. The same intervals always get the same plan.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.planning.offsets import greedy, sweep
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

_SWEEPS_OF_MANY: Final = 150_000
"""Intervals, counted once a sweep, after which no other sweep begins."""

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
    swept = 0
    for name, plan in _SWEEPS:
        if swept >= _SWEEPS_OF_MANY or best.offer(plan(problem), name):
            break
        swept += len(problem)
    if best.is_perfect:
        return
    budget = _GREEDY_PAIRS if len(problem) <= _FEW else _GREEDY_PAIRS_OF_MANY
    for name, order in greedy.ORDERS.items():
        for fit in (True, False):
            budget -= problem.pairs
            how = "best fit" if fit else "lowest fit"
            if budget < 0 or best.offer(
                greedy.placed(problem, order(problem), best=fit), f"by {name}, {how}"
            ):
                return


_SWEEPS: Final = (
    ("sweep from the peak", sweep.from_peak),
    ("sweep forward", sweep.forward),
    ("sweep backward", sweep.backward),
)


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
    plain = [order(problem) for order in greedy.ORDERS.values()]
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
