"""Inline snapshots: programs compared with texts that stand in the test itself.

Convention: a call is known by its place in the file as it was compiled. Texts are gathered while
tests run and written when all are done, so that places stay right and each file is written once.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.testing.comparisons import compare
from wrapper_ir.testing.failures import SnapshotError
from wrapper_ir.testing.pending import leave_inline
from wrapper_ir.testing.rewriting import Edit, InlineSnapshotError, Site, write_edits
from wrapper_ir.testing.texts import PROGRAMS, WIR, form, normal
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType


@dataclass(frozen=True)
class Inline:
    """An inline snapshot that was compared.

    Attributes:
        site: The call.
        target: The emitter whose text it is, ``wir`` or ``structure``.
        before: The text in the call as it is written, None if there is none.
        after: The text that a test made.
        differs: False if the two are the same but for indentation and names.
    """

    site: Site
    target: str
    before: str | None
    after: str
    differs: bool


class Ledger:
    """The inline snapshots that the tests of a run compared."""

    def __init__(self) -> None:
        self._found: dict[Site, list[Inline]] = defaultdict(list)

    def note(self, found: Inline) -> None:
        """Add one; the same call may have been compared before, with other parameters."""
        self._found[found.site].append(found)

    def clashes(self, found: Inline) -> bool:
        """Return whether a call has been compared with another text, so that none suits both."""
        return any(each.after != found.after for each in self._found[found.site])

    def as_data(self) -> list[Any]:
        """Return its contents as plain data, for another process."""
        every = (each for found in self._found.values() for each in found)
        return [[*e.site, e.target, e.before, e.after, e.differs] for e in every]

    def add_data(self, data: Iterable[Any]) -> None:
        """Add what another process's ledger has."""
        for row in data:
            self.note(Inline(Site(*row[:5]), *row[5:]))

    def write(self, *, new_only: bool) -> Iterator[str]:
        """Write new texts into the tests, and yield what was done and what could not be.

        Raises nothing: what cannot be written is said in words that begin with ``error``.
        """
        for file, edits in self._edits(new_only=new_only).items():
            name = os.path.relpath(file)
            try:
                write_edits(file, edits)
            except (InlineSnapshotError, OSError) as error:
                yield f"error: {name} is left as it is: {error}"
            else:
                what = "1 inline snapshot" if len(edits) == 1 else f"{len(edits)} inline snapshots"
                yield f"wrote {what} in {name}"
        for site, found in self._found.items():
            if _clashing(found):
                yield f"error: {_shown(site)}: {_CLASH}"

    def leave(self, *, accepted: bool) -> int:
        """Leave new texts beside the tests for a review, or if they are accepted, none.

        Returns:
            How many are left.
        """
        edits = {} if accepted else self._edits(new_only=False)
        count = 0
        for file in {site.file for site in self._found}:
            sites = {site for site in self._found if site.file == file}
            new = [(self._found[edit.site][-1].target, edit) for edit in edits.get(file, [])]
            if leave_inline(file, sites, new):
                count += len(new)
        return count

    def _edits(self, *, new_only: bool) -> dict[str, list[Edit]]:
        edits: dict[str, list[Edit]] = defaultdict(list)
        for site, found in self._found.items():
            last = found[-1]
            is_wanted = last.differs and (last.before is None or not new_only)
            if is_wanted and not _clashing(found):
                edits[site.file].append(Edit(site, last.before, last.after))
        return edits


_CLASH = "tests need several texts in this one call; give each a call, or use wir_snapshot"


def _clashing(found: Iterable[Inline]) -> bool:
    return len({each.after for each in found}) > 1


def _shown(site: Site) -> str:
    return f"{os.path.relpath(site.file)}:{site.line}"


class InlineSnapshot:
    """Compares programs with texts in the test; what the fixture ``wir_inline`` returns.

    Args:
        ledger: Takes what is compared.
        accepts: Whether snapshots that differ are to be written.
        accepts_new: Whether missing ones are.
    """

    def __init__(self, ledger: Ledger, *, accepts: bool, accepts_new: bool) -> None:
        self._ledger = ledger
        self._accepts, self._accepts_new = accepts, accepts_new

    def __call__(
        self, program: object, expected: str | None = None, /, *, target: str = WIR
    ) -> None:
        """Compare a program with the text of a snapshot, which stands in the call.

        Indentation does not count, nor do names in a program. Without a text, there is none yet.

        Args:
            program: The program.
            expected: The text, a literal.
            target: ``wir``, ``structure``, or an emitter whose output the text is.

        Raises:
            SnapshotError: They differ. pytest shows how.
        """
        __tracebackhide__ = True
        site = _site(sys._getframe(1))  # noqa: SLF001 - where the text is to be written
        before = None if expected is None else normal(expected)

        def settle(text: str) -> str:
            after = normal(text)
            if before is not None and target in PROGRAMS and _means(before, target) == after:
                return before
            return after

        found = compare(program, before, target, f"{_shown(site)}, inline", settle=settle)
        if found.after is None:
            raise SnapshotError(str(found)) from found.error
        inline = Inline(site, target, expected, found.after, found.differs)
        clashes = self._ledger.clashes(inline)
        self._ledger.note(inline)
        if not found.differs:
            return
        if self._accepts or (self._accepts_new and before is None):
            if clashes:
                raise SnapshotError(f"{_shown(site)}: {_CLASH}")
            return
        raise SnapshotError(str(found))


def _means(text: str, target: str) -> str:
    """Return a program's text in the form that is compared, or the text if it is no program."""
    try:
        return normal(str(form(parse(text), target)))
    except WrapperIRError:
        return text


def _site(frame: FrameType) -> Site:
    """Return the place of the call that a frame is making; columns are -1 if Python keeps none."""
    code = frame.f_code
    positions = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    line, end_line, column, end_column = positions
    file = os.path.abspath(code.co_filename)
    if line is None or end_line is None or column is None or end_column is None:
        return Site(file, frame.f_lineno, -1, frame.f_lineno, -1)
    return Site(file, line, column, end_line, end_column)
