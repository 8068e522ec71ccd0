"""Failures of snapshots, as pytest shows them: the difference first, whole, and nothing after it.

pytest cuts explanations of comparisons after a few lines, prints the test's source before them and
all that was logged after them. Here the report of such a failure is made anew.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from wrapper_ir.diffing.model import Row, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _pytest._code.code import (
        ExceptionChainRepr,
        ReprExceptionInfo,
        ReprFileLocation,
        ReprTraceback,
    )
    from _pytest._io import TerminalWriter

    from wrapper_ir.testing.comparisons import Comparison

#: The verbosity from which on captured output is shown as usual.
_EVERYTHING: Final = 2

#: Roles of rows -> pytest's markup.
_MARKUP: Final[dict[str, dict[str, bool]]] = {
    "title": {"bold": True},
    "heading": {"bold": True, "blue": True},
    "added": {"green": True},
    "removed": {"red": True},
    "changed": {"yellow": True},
    "moved": {"cyan": True},
    "place": {"light": True},
    "same": {"light": True},
}


class SnapshotError(AssertionError):
    """A snapshot differs, or is missing; its text is all there is to say."""


class ShownFailure:
    """A failure in rows, in the shape that pytest and its plugins expect of one."""

    def __init__(self, rows: Iterable[Row], plain: ReprExceptionInfo | ExceptionChainRepr) -> None:
        self._rows = tuple(rows)
        self.reprcrash: ReprFileLocation | None = plain.reprcrash
        self.reprtraceback: ReprTraceback = plain.reprtraceback
        self.sections: list[tuple[str, str, str]] = plain.sections

    def toterminal(self, writer: TerminalWriter) -> None:
        """Write the rows, in colour if the terminal has any."""
        for row in self._rows:
            writer.line(to_text([row]).rstrip("\n"), **_MARKUP.get(row.style, {}))

    def __str__(self) -> str:
        return to_text(self._rows).rstrip("\n")


def failed(compared: Iterable[Comparison], error: BaseException) -> Comparison | None:
    """Return which of a test's comparisons made it fail with an error, if one did.

    Comparisons in modules whose asserts pytest does not rewrite raise errors without a message.
    """
    if not isinstance(error, AssertionError):
        return None
    different = [each for each in compared if each.differs]
    if not different:
        return None
    text = str(error)
    named = [each for each in different if each.headline in text]
    return named[-1] if named else (None if text else different[-1])


def command(item: pytest.Item) -> str:
    """Return the command that accepts what a test compares, for where pytest was started."""
    here = item.config.invocation_params.dir
    file, _, name = item.nodeid.partition("::")
    path = Path(os.path.relpath(item.config.rootpath / file, here)).as_posix()
    test = shlex.quote(f"{path}::{name}")
    if item.config.pluginmanager.hasplugin("syrupy"):
        return f"pytest {test} --snapshot-update"
    return f"EXPECTTEST_ACCEPT=1 pytest {test}"


def _rows(comparison: Comparison, item: pytest.Item) -> Iterator[Row]:
    """Yield what failed, how to accept it, and the difference."""
    yield Row(comparison.headline, "title")
    if comparison.after is not None:
        yield Row(f"accept it:  {command(item)}", "heading")
        yield Row("")
    yield from comparison.rows()


def show(
    report: pytest.TestReport,
    item: pytest.Item,
    call: pytest.CallInfo[None],
    comparison: Comparison,
) -> None:
    """Have a report show a failed comparison, and not what the test wrote meanwhile."""
    assert call.excinfo is not None
    rows = [*_rows(comparison, item)]
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        place = os.path.relpath(crash.path)
        rows.append(Row(f"{place}:{crash.lineno}: in {item.name}", "place"))
    if item.config.get_verbosity() < _EVERYTHING:
        hidden = sum(len(text.splitlines()) for _, text in report.sections)
        report.sections = []
        if hidden:
            lines = "1 line" if hidden == 1 else f"{hidden} lines"
            rows.append(Row(f"{lines} of captured output: pytest -vv shows them", "same"))
    error = SnapshotError(to_text(rows).rstrip("\n"))
    info = pytest.ExceptionInfo.from_exception(error.with_traceback(call.excinfo.tb))
    plain = info.getrepr(style="value")
    if plain.reprcrash is not None:
        plain.reprcrash.message = comparison.headline  # the line at the end: the rest is above it
    report.longrepr = ShownFailure(rows, plain)  # type: ignore[assignment]  # all that is read of one
