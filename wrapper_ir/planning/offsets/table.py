"""Intervals in files: the CSV of MiniMalloc, ``id,lower,upper,size`` with a first line of names.

Other columns are kept and written back; ``offset`` is what a plan adds. Spaces around names and
values do not count.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.planning.offsets.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NEEDED: Final = ("lower", "upper", "size")
OFFSET: Final = "offset"


class IntervalFileError(WrapperIRError):
    """A file of intervals cannot be read. Fields: ``file``, ``line`` (from 1) and ``why``."""

    code = "WIR1304"
    template = "{file}:{line}: {why}"
    default_hint = "the first line is id,lower,upper,size; each other line is one buffer"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the file: its values in the order of the columns, and what they mean."""

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
    """The table that a CSV text holds; ``file`` is how errors call it.

    Raises:
        IntervalFileError: a column is missing, or a line is not what the first one announces.
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
            why = f"a lifetime of {lower} to {upper} with {size} bytes is none"
            raise IntervalFileError(file=file, line=line, why=why)
        rows.append(Row(values, (lower, upper, size), line))
    return IntervalTable(columns, tuple(rows))


def write_intervals(table: IntervalTable, offsets: Sequence[int]) -> str:
    """The table as CSV with a column ``offset``, which replaces one of that name."""
    kept = [at for at, name in enumerate(table.columns) if name != OFFSET]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(table.columns[at] for at in kept), OFFSET])
    for row, offset in zip(table.rows, offsets, strict=True):
        writer.writerow([*(row.values[at] for at in kept), offset])
    return out.getvalue()


def _lines(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that are not empty, with their numbers."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield reader.line_num, fields
    except csv.Error as error:
        raise IntervalFileError(file=file, line=reader.line_num, why=str(error)) from error


def _number(text: str, column: str, file: str, line: int) -> int:
    # int() alone would take 1_000 and digits of all alphabets.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        why = f"{text!r} in column {column!r} is not a whole number"
        raise IntervalFileError(file=file, line=line, why=why)
    return int(text)
