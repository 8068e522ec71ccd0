"""The checker: whether a plan is one, found out in another way than plans are made.

Planners look for gaps; the checker looks for collisions. It goes along time with the list of what
is alive sorted by address, and compares what comes in with its two neighbours: enough, since those
that were there before lie apart. It shares no code with the planners.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.planning.offsets.intervals import Interval


class PlanError(WrapperIRError):
    """A plan is wrong. Fields: ``number`` is the interval, counted from 0, ``why`` says how."""

    code = "WIR1303"
    template = "the place of interval {number} is wrong: {why}"


class _Place(NamedTuple):
    """An interval in memory."""

    start: int
    end: int
    number: int


def check_offsets(
    intervals: Sequence[Interval], offsets: Sequence[int], *, alignment: int = 1, height: int
) -> None:
    """Checks that intervals which share a time share no byte, lie within ``height`` and aligned.

    Raises:
        PlanError: two overlap, or one lies outside, or not at a multiple of the alignment.
    """
    _check_places(intervals, offsets, alignment, height)
    comings = _by_time((lower, n) for n, (lower, upper, size) in enumerate(intervals) if size)
    goings = _by_time((upper, n) for n, (lower, upper, size) in enumerate(intervals) if size)
    alive: list[_Place] = []
    for time in sorted(comings.keys() | goings.keys()):
        for number in goings.get(time, ()):
            if intervals[number][0] < time:
                alive.pop(bisect_left(alive, _place(intervals, offsets, number)))
        for number in comings.get(time, ()):
            if intervals[number][1] > time:
                _enter(alive, _place(intervals, offsets, number))


def _check_places(
    intervals: Sequence[Interval], offsets: Sequence[int], alignment: int, height: int
) -> None:
    """Checks each interval by itself."""
    if len(offsets) != len(intervals):
        why = f"there are {len(offsets)} offsets for {len(intervals)} intervals"
        raise PlanError(number=min(len(offsets), len(intervals)), why=why)
    for number, ((lower, upper, size), start) in enumerate(zip(intervals, offsets, strict=True)):
        if lower == upper:
            continue
        if start % alignment:
            raise PlanError(number=number, why=f"{start} is not a multiple of {alignment}")
        if start < 0 or start + size > height:
            why = f"bytes {start} to {start + size} are not within the {height}"
            raise PlanError(number=number, why=why)


def _by_time(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for time, number in pairs:
        found.setdefault(time, []).append(number)
    return found


def _place(intervals: Sequence[Interval], offsets: Sequence[int], number: int) -> _Place:
    return _Place(offsets[number], offsets[number] + intervals[number][2], number)


def _enter(alive: list[_Place], new: _Place) -> None:
    at = bisect_left(alive, new)
    for other in alive[max(at - 1, 0) : at + 1]:
        if other.start < new.end and new.start < other.end:
            why = (
                f"bytes {new.start} to {new.end} are taken: interval {other.number} "
                f"has {other.start} to {other.end} at the same time"
            )
            raise PlanError(number=new.number, why=why)
    insort(alive, new)
