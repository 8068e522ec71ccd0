"""The placement problem (intervals of time with sizes), its file format, and a checker of plans."""

from __future__ import annotations

import csv
import io
from bisect import bisect_left, insort
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.errors import OptionValueError, WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Interval", "IntervalError", "IntervalFileError", "IntervalTable", "PlanError"]
__all__ += ["check_offsets", "read_intervals", "write_intervals"]


# An interval is ``(lower, upper, size)``: bytes needed at each time ``lower <= t < upper``. Sizes
# are rounded up to the alignment on entry, so bounds and heights count the padding. With aligned
# offsets nothing else can use it anyway.

Interval: TypeAlias = tuple[int, int, int]
"""``(lower, upper, size)``: a half-open lifetime and bytes."""


class IntervalError(WrapperIRError):
    """An interval is invalid.

    Fields: ``number`` counts from 0, ``interval`` is the argument, ``why`` the reason.
    """

    code = "WIR1302"
    template = "interval {number} is {interval}: {why}"
    default_hint = "an interval is (lower, upper, size) with lower <= upper and size >= 0"


class Problem:
    """Intervals prepared for planning. Those that need no space are left out."""

    def __init__(self, intervals: Iterable[Interval], alignment: int) -> None:
        if alignment < 1:
            raise OptionValueError(option="alignment", value=alignment, expected="at least 1")
        self.lower: list[int] = []
        self.upper: list[int] = []
        self.size: list[int] = []
        #: The index of each interval among those given.
        self.number: list[int] = []
        self.given: int = 0
        for number, interval in enumerate(intervals):
            lower, upper, size = _triple(number, interval)
            self.given += 1
            if upper < lower or size < 0:
                why = "its size is negative" if size < 0 else "it ends before it begins"
                raise IntervalError(number=number, interval=(lower, upper, size), why=why)
            if size and upper > lower:
                self.lower.append(lower)
                self.upper.append(upper)
                self.size.append(-(-size // alignment) * alignment)
                self.number.append(number)

    def __len__(self) -> int:
        return len(self.size)

    @cached_property
    def _events(self) -> list[tuple[int, int]]:
        """Sorted times with the bytes gained or lost; at equal times, losses come first."""
        gains = zip(self.lower, self.size, strict=True)
        losses = ((end, -size) for end, size in zip(self.upper, self.size, strict=True))
        return sorted((*gains, *losses))

    @cached_property
    def peak(self) -> tuple[int, int]:
        """The most bytes alive at once, and the first time when they are."""
        alive = most = at = 0
        for time, change in self._events:
            alive += change
            if alive > most:
                most, at = alive, time
        return most, at

    @property
    def lower_bound(self) -> int:
        """The most bytes alive at once: no plan is lower."""
        return self.peak[0]

    @cached_property
    def pairs(self) -> int:
        """The number of pairs alive at the same time."""
        starts = sorted(self.lower)
        begun = sum(bisect_left(starts, end) for end in self.upper)
        # This counts all that begin before an interval's end: earlier ones, itself and its pairs.
        ends = sorted(self.upper)
        over = sum(bisect_left(ends, start + 1) for start in self.lower)
        return (begun - over - len(starts)) // 2

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """For each interval, those alive at the same time."""
        found: list[list[int]] = [[] for _ in self.size]
        alive: list[int] = []
        for i in sorted(range(len(self)), key=self.lower.__getitem__):
            start = self.lower[i]
            alive = [j for j in alive if self.upper[j] > start]
            for j in alive:
                found[j].append(i)
            found[i] = alive.copy()
            alive.append(i)
        return found

    @cached_property
    def sections(self) -> tuple[list[int], list[int], int]:
        """Time cut into sections: each interval's first and end section, and their number.

        A section is a maximal set of intervals alive at once. Two intervals share a section if and
        only if they overlap in time, and the peak over sections is the peak over time.
        """
        starts, ends = set(self.lower), set(self.upper)
        first: dict[int, int] = {}
        behind: dict[int, int] = {}
        section, has_ended = 0, False
        for time in sorted(starts | ends):
            if time in ends:
                has_ended = True
                behind[time] = section + 1
            if time in starts:
                section += has_ended
                has_ended = False
                first[time] = section
        begins = [first[time] for time in self.lower]
        return begins, [behind[time] for time in self.upper], section + 1

    def height(self, offsets: list[int]) -> int:
        """Return the bytes up to the end of the topmost interval."""
        return max((at + size for at, size in zip(offsets, self.size, strict=True)), default=0)


def _triple(number: int, interval: Interval) -> Interval:
    """Return an interval's three numbers."""
    try:
        lower, upper, size = interval
    except (TypeError, ValueError):
        raise IntervalError(number=number, interval=interval, why="it is not a triple") from None
    return lower, upper, size


# The checker of plans, which shares no code with the planners.
#
# Planners look for gaps; the checker looks for collisions. It sweeps over time, keeps the live
# intervals sorted by address, and compares each new one with its two neighbours. That is enough,
# since those alive before are disjoint.


class PlanError(WrapperIRError):
    """A plan is wrong. Fields: ``number`` is the interval, counted from 0, ``why`` the reason."""

    code = "WIR1303"
    template = "the place of interval {number} is wrong: {why}"


_Place: TypeAlias = tuple[int, int, int]
"""An interval in memory: start, end, number."""


def check_offsets(
    intervals: Sequence[Interval], offsets: Sequence[int], *, alignment: int = 1, height: int
) -> None:
    """Check that a plan is aligned, lies within ``height``, and has no collisions.

    Raises:
        PlanError: Two intervals share bytes at one time, or one is misaligned or out of bounds.
    """
    _check_places(intervals, offsets, alignment, height)
    events = []
    for number, (lower, upper, size) in enumerate(intervals):
        if size and lower < upper:
            events += [(upper, 0, number), (lower, 1, number)]
    alive: list[_Place] = []
    for _, begins, number in sorted(events):
        place = (offsets[number], offsets[number] + intervals[number][2], number)
        if begins:
            _enter(alive, place)
        else:
            del alive[bisect_left(alive, place)]


def _check_places(
    intervals: Sequence[Interval], offsets: Sequence[int], alignment: int, height: int
) -> None:
    """Check each interval on its own."""
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


def _enter(alive: list[_Place], new: _Place) -> None:
    at = bisect_left(alive, new)
    start, end, number = new
    for other_start, other_end, other in alive[max(at - 1, 0) : at + 1]:
        if other_start < end and start < other_end:
            holder = f"interval {other} has {other_start} to {other_end} at the same time"
            why = f"bytes {start} to {end} are taken: {holder}"
            raise PlanError(number=number, why=why)
    insort(alive, new)


# Files of intervals are in MiniMalloc's CSV format, ``id,lower,upper,size``, with a header line.
#
# Other columns are kept and written back; a plan adds ``offset``. Spaces around names and values
# are ignored.

_NEEDED: Final = ("lower", "upper", "size")
OFFSET: Final = "offset"


class IntervalFileError(WrapperIRError):
    """A file of intervals cannot be read. Fields: ``file``, ``line`` (from 1) and ``why``."""

    code = "WIR1304"
    template = "{file}:{line}: {why}"
    default_hint = "the first line is id,lower,upper,size; each other line is one buffer"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the file: its values in column order, and its interval."""

    values: tuple[str, ...]
    interval: Interval
    line: int


@dataclass(frozen=True, slots=True)
class IntervalTable:
    """Intervals read from a file."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def intervals(self) -> list[Interval]:
        """The intervals in the file's order."""
        return [row.interval for row in self.rows]


def read_intervals(text: str, file: str = "<string>") -> IntervalTable:
    """Parse a CSV text; errors call it ``file``.

    Raises:
        IntervalFileError: A column is missing, or a line is malformed.
    """
    lines = _lines(text, file)
    first = next(lines, (1, []))[1]
    columns = tuple(name.strip() for name in first)
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        why = f"there is no column {', '.join(map(repr, missing))} among {', '.join(columns)!r}"
        raise IntervalFileError(file=file, line=1, why=why)
    where = [columns.index(name) for name in _NEEDED]
    rows = []
    for line, fields in lines:
        values = tuple(field.strip() for field in fields)
        if len(values) != len(columns):
            why = f"there are {len(values)} values for {len(columns)} columns"
            raise IntervalFileError(file=file, line=line, why=why)
        lower, upper, size = (_number(values[at], columns[at], file, line) for at in where)
        if upper < lower or size < 0:
            why = f"a lifetime of {lower} to {upper} with {size} bytes is invalid"
            raise IntervalFileError(file=file, line=line, why=why)
        rows.append(Row(values, (lower, upper, size), line))
    return IntervalTable(columns, tuple(rows))


def write_intervals(table: IntervalTable, offsets: Sequence[int]) -> str:
    """Return the table as CSV with a new or replaced column ``offset``."""
    kept = [at for at, name in enumerate(table.columns) if name != OFFSET]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(table.columns[at] for at in kept), OFFSET])
    for row, offset in zip(table.rows, offsets, strict=True):
        writer.writerow([*(row.values[at] for at in kept), offset])
    return out.getvalue()


def _lines(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not empty, with their numbers."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield reader.line_num, fields
    except csv.Error as error:
        raise IntervalFileError(file=file, line=reader.line_num, why=str(error)) from error


def _number(text: str, column: str, file: str, line: int) -> int:
    # int() alone would accept 1_000 and non-ASCII digits.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        why = f"{text!r} in column {column!r} is not a whole number"
        raise IntervalFileError(file=file, line=line, why=why)
    return int(text)
