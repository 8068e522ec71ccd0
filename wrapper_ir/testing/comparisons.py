"""What a test compared with its snapshots, and what to say if they differ.

Convention: a comparison is recorded in the test that makes it. Whoever reports a failure, or leaves
the new text for a review, finds there what was compared, and need not read messages.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.diffing import diff, diff_sources
from wrapper_ir.diffing.model import Row, to_text
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.kernels import CppKernel
from wrapper_ir.lines.program import Program
from wrapper_ir.options.process import SNAPSHOTS
from wrapper_ir.testing.texts import PROGRAMS, STRUCTURE, snapshot_text
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir.diffing.model import Report

#: Lines of a text that are shown of a snapshot that does not exist yet.
_SHOWN: Final = 16


@dataclass(frozen=True)
class Comparison:
    """A text compared with a snapshot.

    Attributes:
        place: The snapshot: a file, or the place of a call, for people.
        target: The emitter whose text it is, ``wir`` or ``structure``.
        before: The text of the snapshot; None if there is none.
        after: The text that the test made; None if that failed.
        notes: What to know before the changes.
        file: The file of the snapshot; empty if it is inline.
        error: The reason why there is no text.
    """

    place: str
    target: str
    before: str | None
    after: str | None
    notes: tuple[str, ...] = ()
    file: str = ""
    error: Exception | None = None

    @property
    def differs(self) -> bool:
        """True if there is no snapshot, or another one."""
        return self.after is None or self.before != self.after

    @property
    def headline(self) -> str:
        """What is wrong, in a line."""
        if self.after is None:
            return f"no text to compare with the snapshot {self.place}"
        if self.before is None:
            return f"snapshot missing: {self.place}"
        return f"snapshot differs: {self.place}"

    def rows(self) -> Iterator[Row]:
        """Yield what differs, row by row."""
        yield from (Row(note, "changed") for note in self.notes)
        if self.after is None:
            is_said = isinstance(self.error, WrapperIRError | TypeError)
            text = str(self.error) if is_said else repr(self.error)
            yield from (Row(line) for line in text.splitlines())
        elif self.before is None:
            yield from _beginning(self.after)
        else:
            yield from change_rows(self.before, self.after, self.target)

    def __str__(self) -> str:
        return f"{self.headline}\n{to_text(self.rows())}"


comparisons: Final[ContextVar[list[Comparison] | None]] = ContextVar("comparisons", default=None)
"""The comparisons of the test that runs in this context, in their order; None outside of one."""


def record(comparison: Comparison) -> Comparison:
    """Note a comparison of the current test, if there is one, and return it."""
    noted = comparisons.get()
    if noted is not None:
        noted.append(comparison)
    return comparison


def compare(
    data: object,
    before: str | None,
    target: str,
    place: str,
    *,
    file: str = "",
    settle: Callable[[str], str] = lambda text: text,
) -> Comparison:
    """Record the comparison of a program with the text of a snapshot, and return it.

    What goes wrong is part of it. ``settle`` takes the program's text and returns what is compared.
    """
    try:
        after = settle(snapshot_text(data, target))
    except Exception as error:  # an emitter's may be any
        return record(Comparison(place, target, before, None, file=file, error=error))
    notes = () if target == STRUCTURE else _notes(data)
    return record(Comparison(place, target, before, after, notes, file))


def _notes(program: object) -> tuple[str, ...]:
    """Return what is to be known of a program whose kernels are not those of snapshots."""
    assert isinstance(program, Program)
    sources = (definition.source for definition in program.kernels.values())
    sets = {source.isa for source in sources if isinstance(source, CppKernel) and source.isa}
    others = ", ".join(sorted(sets - {SNAPSHOTS.isa}))
    if not others:
        return ()
    which = f"its kernels are for {others}, not {SNAPSHOTS.isa} as in snapshots"
    return (f"{which}: capture it in the test, on a processor with {SNAPSHOTS.isa}",)


def difference(before: str, after: str, target: str) -> Report:
    """Compare two texts: programs by meaning, if they are programs and mean different things."""
    if target in PROGRAMS:
        try:
            found = diff(parse(before), parse(after))
        except WrapperIRError:
            return diff_sources(before, after, target)
        if found:
            return found
    return diff_sources(before, after, target)


def change_rows(before: str, after: str, target: str) -> Iterator[Row]:
    """Yield the changes in as few rows as possible: without empty and unchanged ones."""
    if target in PROGRAMS:
        try:
            parse(before)
        except WrapperIRError as error:
            first = str(error).splitlines()[0]
            yield Row(f"the snapshot is not a valid program: {first}", "changed")
    rows = difference(before, after, target).rows()
    yield from (row for row in rows if row.text and row.style != "same")


def _beginning(text: str) -> Iterator[Row]:
    lines = text.splitlines()
    yield from (Row(f"+ {line}".rstrip(), "added") for line in lines[:_SHOWN])
    if len(lines) > _SHOWN:
        yield Row(f"and {len(lines) - _SHOWN} more lines", "same")
