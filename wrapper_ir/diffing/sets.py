"""Comparing sets of programs, such as those of two releases of torch: what changed in which.

Convention: programs of two sets correspond if they have the same name. Figures are those of the
programs; whether and how they differ is asked of their structures instead, if that is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.diffing.model import FIGURES, Figures, Kind, Report, Row
from wrapper_ir.diffing.programs import diff, figures
from wrapper_ir.diffing.structural_form import structure as structure_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.lines import Program

__all__ = ["ProgramChange", "SetDiff", "compare"]


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """A program of a set that is added, removed or changed."""

    name: str
    kind: Kind
    before: Figures | None = None
    """The figures of the program in the first set; None if it is not there."""
    after: Figures | None = None
    summary: str = ""
    """What changed, counted: ``kernels: 1 changed; lines: 2 added``."""
    command: str = ""
    """The command that shows it in the explorer."""
    page: str = ""
    """The address of such a page, if there is one."""

    def figure(self, name: str) -> str:
        """Return a figure: ``12``, or ``12 -> 13`` if it changed."""
        numbers = [getattr(each, name) for each in (self.before, self.after) if each is not None]
        return " -> ".join(dict.fromkeys("?" if n is None else f"{n:,}" for n in numbers))

    def rows(self) -> Iterator[Row]:
        """Yield the program, how it changed, the figures that did, and how to see it."""
        yield Row("")
        yield Row(f"{self.name}: {self.kind.value}", self.kind.value)
        if self.summary:
            yield Row(self.summary, "field", 1)
        for name, words in FIGURES.items():
            if self.kind is not Kind.CHANGED or "->" in self.figure(name):
                yield Row(f"{words:<22}{self.figure(name):>14}", "field", 1)
        if self.command:
            yield Row(self.command, "place", 1)


def compare(
    name: str, before: Program | None, after: Program | None, *, structure: bool = False
) -> ProgramChange | None:
    """Compare a program of one set with the one of the same name in another.

    Args:
        name: Their name.
        before: The program in the first set; None if it has none of that name.
        after: The program in the second set.
        structure: Compare only kernels, calls and their order.

    Returns:
        What changed; None if they are the same.
    """
    if before is None or after is None:
        kind = Kind.ADDED if before is None else Kind.REMOVED
        counts = (None if each is None else figures(each) for each in (before, after))
        return ProgramChange(name, kind, next(counts), next(counts))
    found = diff(structure_of(before), structure_of(after)) if structure else diff(before, after)
    if not found:
        return None
    return ProgramChange(name, Kind.CHANGED, figures(before), figures(after), found.headline)


@dataclass(frozen=True, slots=True)
class SetDiff(Report):
    """The differences between two sets of programs; true if there are any."""

    total: int
    """How many names there are in both sets together."""
    changes: tuple[ProgramChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if all programs are the same."""
        return not self.changes

    @property
    def headline(self) -> str:
        """How many programs changed, in a line."""
        counts = [(kind, sum(each.kind is kind for each in self.changes)) for kind in Kind]
        said = [f"{count} {kind.value}" for kind, count in counts if count]
        programs = "1 program" if self.total == 1 else f"{self.total:,} programs"
        return f"{programs}: {', '.join([*said, f'{self.total - len(self.changes):,} the same'])}"

    def rows(self) -> Iterator[Row]:
        """Yield the headline, and for each program that changed what did."""
        yield Row(self.headline, "title")
        for each in self.changes:
            yield from each.rows()

    def to_markdown(self) -> str:
        """Return a table for a comment in a pull request, with the figures that changed."""
        shown = [name for name in FIGURES if any("->" in c.figure(name) for c in self.changes)]
        lines = [f"**{self.headline}**", ""]
        if self.changes:
            lines.append(_row(["program", *(FIGURES[name] for name in shown), "change", "open"]))
            lines.append(_row(["---", *("---:" for _ in shown), "---", "---"]))
        for each in self.changes:
            figures = (each.figure(name).replace("->", "→") for name in shown)
            opens = f"[page](<{each.page}>)" if each.page else _code(each.command)
            what = _plain(each.summary or each.kind.value)
            lines.append(_row([_plain(each.name), *figures, what, opens]))
        return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


#: What Markdown reads as more than a character. ``@`` and ``#`` refer to people and issues.
_SPECIAL = "\\`*{}[]<>()#+!|~&@"


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is, in a cell of a table."""
    return "".join(f"&#{ord(each)};" if each in _SPECIAL else each for each in _in_line(text))


def _code(text: str) -> str:
    """Return a text as code, in a cell of a table."""
    escaped = {"&": "&amp;", "<": "&lt;", "|": "&#124;"}
    return f"<code>{''.join(escaped.get(each, each) for each in _in_line(text))}</code>"


def _in_line(text: str) -> str:
    return " ".join(text.split())
