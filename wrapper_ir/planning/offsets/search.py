"""Exact search: is there a plan of at most a given height?

Time is cut into sections (:attr:`Problem.sections`). The *skyline* is the height up to which each
section is decided. A *valley* is a run of sections of equal height between higher walls. In a plan
with all intervals pushed down as far as possible, the lowest undecided interval over a section
``t`` of a valley either

- lies within the valley, on its floor: one branch for each candidate; or
- lies on another interval of the valley that does not span ``t``, or extends over a wall. Then
  nothing at ``t`` is below the lower wall, or below the floor plus the smallest such interval. The
  skyline at ``t`` rises to there, and the difference is lost.

A search fails only by losing too much: each section can lose at most the height minus the bytes
alive in it. At the peak of a plan at the lower bound that is nothing, which rules out the second
branch there.

``t`` is the section with the least left to lose, so decisions start where they are forced. Each
section stores the decisions that shaped it as a bit set, so each failure knows the decisions that
caused it, and backtracking skips the others (conflict-directed backjumping). Otherwise a failure in
one part of time would be retried for each plan of the rest.

Search time varies wildly with the order in which intervals are tried. So there are many short
searches in different orders instead of a long one. Their limit is a number of nodes, never a time,
and their shuffles come from a seeded generator.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wrapper_ir.planning.offsets.intervals import Problem

_CLOSED: Final = 1 << 100
"""The height of a section with nothing left to place: a wall that nothing can extend over."""

_SOLVED: Final = -1


class Outcome(enum.Enum):
    """The outcome of a search."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    """There is no such plan."""
    LIMIT = "limit"
    """The node limit was reached."""


@dataclass(slots=True)
class _Decision:
    """One level of the search: a section of a valley and the candidates to lie lowest there."""

    section: int
    floor: int
    options: list[int]
    raised: int
    """The height that ``section`` rises to if no option is taken."""
    reason: int
    """The decisions that led to these options."""
    conflict: int
    """The decisions that caused the failures so far."""
    undo: list[tuple[int, int, int, int]]
    """Earlier states of sections raised before: section, height, slack and reason."""
    tried: int = 0
    before: tuple[int, ...] = ()
    """Earlier reasons of the sections that the current option spans."""


class Search:
    """A search for a plan of at most ``height``.

    Args:
        problem: The intervals.
        height: The height limit, at least the lower bound.
        ranking: All intervals in the order in which to try them.
        lowest: Try the lowest valley first instead of the tightest.
    """

    def __init__(
        self, problem: Problem, height: int, ranking: list[int], *, lowest: bool = False
    ) -> None:
        self.first, self.behind, count = problem.sections
        self.size = problem.size
        self.ranking = ranking
        self.lowest = lowest
        self.spanning: list[list[int]] = [[] for _ in range(count)]
        self.left = [0] * count
        for i in ranking:
            for section in range(self.first[i], self.behind[i]):
                self.spanning[section].append(i)
                self.left[section] += self.size[i]
        self.slack = [height - nbytes for nbytes in self.left]
        self.sky = [0 if nbytes else _CLOSED for nbytes in self.left]
        self.reasons = [0] * count
        self.offsets = [-1] * len(problem)
        self.unplaced = len(problem)
        self.nodes = 0
        self.stack: list[_Decision] = []

    def run(self, limit: int) -> Outcome:
        """Run the search; after ``FOUND`` the plan is in ``offsets``."""
        if min(self.slack, default=0) < 0:
            return Outcome.IMPOSSIBLE
        while self.unplaced:
            if self.nodes > limit:
                return Outcome.LIMIT
            conflict = self._descend()
            if conflict != _SOLVED and not self._back(conflict):
                return Outcome.IMPOSSIBLE
        return Outcome.FOUND

    def _descend(self) -> int:
        """Open the next decision and take its first branch; return the conflict if it has none."""
        undo: list[tuple[int, int, int, int]] = []
        while True:
            self.nodes += 1
            first, behind = self._valley()
            floor = self.sky[first]
            section = self.slack.index(min(self.slack[first:behind]), first, behind)
            reason = self._reason(first, behind)
            options = [i for i in self.spanning[section] if self._fits(i, first, behind)]
            raised = self._raised(section, first, behind)
            if options:
                break
            if raised - floor > self.slack[section]:
                self._restore(undo)
                return reason
            undo.append((section, floor, self.slack[section], self.reasons[section]))
            self._raise(section, raised, reason)
        decision = _Decision(section, floor, options, raised, reason, reason, undo)
        self.stack.append(decision)
        self._place(decision)
        return _SOLVED

    def _back(self, conflict: int) -> bool:
        """Backtrack to the last decision that caused a failure, and take its next branch."""
        while self.stack:
            decision = self.stack[-1]
            bit = 1 << (len(self.stack) - 1)
            if decision.tried < len(decision.options):
                self._take_back(decision)
            else:
                self._lower(decision)
            if conflict & bit:
                decision.conflict |= conflict & ~bit
                decision.tried += 1
                if decision.tried < len(decision.options):
                    self._place(decision)
                    return True
                is_last = decision.tried == len(decision.options)
                lost = decision.raised - decision.floor
                if is_last and lost <= self.slack[decision.section]:
                    self._lift(decision, bit)
                    return True
                conflict = decision.conflict
            self._restore(decision.undo)
            self.stack.pop()
        return False

    # Looking.

    def _valley(self) -> tuple[int, int]:
        """Return the tightest (or lowest) valley."""
        sky, slack = self.sky, self.slack
        found, best = (0, 0), (_CLOSED, _CLOSED)
        before, start, count = _CLOSED, 0, len(sky)
        while start < count:
            height = sky[start]
            end = start + 1
            while end < count and sky[end] == height:
                end += 1
            if height < before and height < (sky[end] if end < count else _CLOSED):
                tight = min(slack[start:end])
                key = (height, tight) if self.lowest else (tight, height)
                if key < best:
                    found, best = (start, end), key
            before, start = height, end
        return found

    def _fits(self, i: int, first: int, behind: int) -> bool:
        return self.offsets[i] < 0 and self.first[i] >= first and self.behind[i] <= behind

    def _raised(self, section: int, first: int, behind: int) -> int:
        """Return the height that a section rises to if nothing there lies on the floor."""
        sky = self.sky
        raised = sky[first - 1] if first else _CLOSED
        if behind < len(sky):
            raised = min(raised, sky[behind])
        smallest = raised - sky[first]
        offsets, size, begin, end = self.offsets, self.size, self.first, self.behind
        for i in self.ranking:
            if (
                size[i] < smallest
                and offsets[i] < 0
                and begin[i] >= first
                and end[i] <= behind
                and not begin[i] <= section < end[i]
            ):
                smallest = size[i]
        return sky[first] + smallest

    def _reason(self, first: int, behind: int) -> int:
        """Return the decisions that shaped a valley and its walls."""
        sky, reasons = self.sky, self.reasons
        found = 0
        if first and sky[first - 1] < _CLOSED:
            found = reasons[first - 1]
        if behind < len(sky) and sky[behind] < _CLOSED:
            found |= reasons[behind]
        for section in range(first, behind):
            found |= reasons[section]
        return found

    # Doing and undoing.

    def _place(self, decision: _Decision) -> None:
        """Place the current option on the floor."""
        i = decision.options[decision.tried]
        first, behind, nbytes = self.first[i], self.behind[i], self.size[i]
        self.offsets[i] = decision.floor
        self.unplaced -= 1
        decision.before = tuple(self.reasons[first:behind])
        bit = 1 << (len(self.stack) - 1)
        for section in range(first, behind):
            self.left[section] -= nbytes
            is_open = self.left[section] > 0
            self.sky[section] = decision.floor + nbytes if is_open else _CLOSED
            self.reasons[section] |= bit

    def _take_back(self, decision: _Decision) -> None:
        i = decision.options[decision.tried]
        first, behind = self.first[i], self.behind[i]
        self.offsets[i] = -1
        self.unplaced += 1
        for section in range(first, behind):
            self.left[section] += self.size[i]
            self.sky[section] = decision.floor
        self.reasons[first:behind] = decision.before

    def _lift(self, decision: _Decision, bit: int) -> None:
        """Take the branch in which no option lies on the floor."""
        section = decision.section
        decision.before = (self.reasons[section],)
        self._raise(section, decision.raised, decision.reason | bit)

    def _lower(self, decision: _Decision) -> None:
        section = decision.section
        self.slack[section] += decision.raised - decision.floor
        self.sky[section] = decision.floor
        (self.reasons[section],) = decision.before

    def _raise(self, section: int, height: int, reason: int) -> None:
        self.slack[section] -= height - self.sky[section]
        self.sky[section] = height
        self.reasons[section] = reason

    def _restore(self, undo: list[tuple[int, int, int, int]]) -> None:
        for section, height, slack, reason in reversed(undo):
            self.sky[section] = height
            self.slack[section] = slack
            self.reasons[section] = reason
