"""Diffs for people: rows of text, and three ways to show them.

What is said, and in which order, is decided once, in rows; plain text, a terminal and a page of
HTML only dress them.
"""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.diffing.model import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.text import Text

    from wrapper_ir.diffing.model import (
        FieldChange,
        Figures,
        ItemChange,
        KernelChange,
        LineChange,
        ProgramDiff,
        RegionChange,
        SourceDiff,
        TextChange,
    )

__all__ = ["Row", "program_rows", "source_rows", "to_html", "to_rich", "to_text"]

_MARKS: Final = {Kind.ADDED: "+", Kind.REMOVED: "-", Kind.CHANGED: "~", Kind.MOVED: ">"}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of what is shown; ``style`` says what it is, for its colour."""

    text: str
    style: str = "plain"
    depth: int = 0


def program_rows(diff: ProgramDiff) -> Iterator[Row]:
    """A diff of programs as rows: the summary, then kernels, tables and lines."""
    if diff.is_empty:
        yield Row("The programs are the same.", "title")
        return
    yield Row(_headline(diff), "title")
    yield Row("")
    yield from _figures(diff.before, diff.after)
    if diff.kernels:
        yield from _heading("kernels")
        for kernel in diff.kernels:
            yield from _kernel(kernel)
    if diff.items:
        yield from _heading("inputs, constants, symbols, results")
        for item in diff.items:
            yield from _item(item, 1)
    if diff.lines:
        yield from _heading("lines")
        for line in diff.lines:
            yield from _line(line, 1)


def source_rows(diff: SourceDiff) -> Iterator[Row]:
    """A diff of emitted texts as rows."""
    if diff.is_empty:
        yield Row(f"The texts for {diff.target} are the same.", "title")
        return
    counts = Counter(section.kind for section in diff.sections)
    said = ", ".join(f"{counts[kind]} {kind.value}" for kind in Kind if counts[kind])
    added = sum(len(t.added) for s in diff.sections for t in s.text)
    removed = sum(len(t.removed) for s in diff.sections for t in s.text)
    yield Row(f"{diff.target}, sections: {said}", "title")
    lines = f"{diff.lines_before} -> {diff.lines_after}, {removed} removed, {added} added"
    yield Row(f"lines {lines}", depth=1)
    for section in diff.sections:
        yield Row("")
        yield Row(f"{_MARKS[section.kind]} {section.name}", section.kind.value, 1)
        yield from _code(section.text, 2)


def _headline(diff: ProgramDiff) -> str:
    parts = []
    groups: tuple[tuple[str, Sequence[KernelChange | LineChange | ItemChange]], ...] = (
        ("kernel", diff.kernels),
        ("line", tuple(_all_lines(diff.lines))),
        *((what, [i for i in diff.items if i.what == what]) for what in _ITEMS),
    )
    for what, changes in groups:
        counts = Counter(change.kind for change in changes)
        said = [f"{counts[kind]} {kind.value}" for kind in Kind if counts[kind]]
        if said:
            parts.append(f"{what}s: {', '.join(said)}")
    return "; ".join(parts)


_ITEMS: Final = ("program", "input", "constant", "symbol", "op", "buffer", "result")


def _all_lines(lines: Iterable[LineChange]) -> Iterator[LineChange]:
    for line in lines:
        yield line
        for region in line.regions:
            yield from _all_lines(region.lines)


def _figures(before: Figures, after: Figures) -> Iterator[Row]:
    rows = [
        ("kernels", before.kernels, after.kernels),
        ("calls of kernels", before.calls, after.calls),
        ("calls of library ops", before.ops, after.ops),
        ("lines", before.lines, after.lines),
        ("allocations", before.allocations, after.allocations),
        ("bytes allocated", before.allocated_bytes, after.allocated_bytes),
        ("bytes at the peak", before.peak_bytes, after.peak_bytes),
    ]
    for what, old, new in rows:
        texts = ["?" if number is None else f"{number:,}" for number in (old, new)]
        if old == new:
            yield Row(f"{what:<22}{texts[0]:>14}", "same", 1)
        else:
            yield Row(f"{what:<22}{texts[0]:>14}  -> {texts[1]}", "changed", 1)


def _heading(text: str) -> Iterator[Row]:
    yield Row("")
    yield Row(text, "heading")


def _kernel(kernel: KernelChange) -> Iterator[Row]:
    names = _names(kernel.before, kernel.after, "@")
    yield Row(f"{_MARKS[kernel.kind]} {names}", kernel.kind.value, 1)
    yield from _fields(kernel.fields, 2)
    yield from _code(kernel.code, 2)


def _names(before: str, after: str, mark: str) -> str:
    names = [f"{mark}{name}" for name in dict.fromkeys((before, after)) if name]
    return " -> ".join(names)


def _item(item: ItemChange, depth: int) -> Iterator[Row]:
    mark = f"{_MARKS[item.kind]} {item.what}"
    texts = dict.fromkeys(text for text in (item.before, item.after) if text)
    if item.fields and item.kind is Kind.CHANGED:
        texts = dict.fromkeys((item.after,))
    yield Row(f"{mark} {' -> '.join(texts)}", item.kind.value, depth)
    yield from _fields(item.fields, depth + 1)


def _line(line: LineChange, depth: int) -> Iterator[Row]:
    style = line.kind.value
    place = _names(line.before, line.after, "")
    text = line.text_after or line.text_before
    yield Row(f"{_MARKS[line.kind]} {place}  {text}", style, depth)
    if any(field.name == "line" for field in line.fields):
        yield Row(f"was: {line.text_before}", "field", depth + 1)
    yield from _fields([f for f in line.fields if f.name != "line"], depth + 1)
    for region in line.regions:
        yield from _region(region, depth + 1)


def _region(region: RegionChange, depth: int) -> Iterator[Row]:
    yield Row(f"in {region.name}:", "field", depth)
    for item in region.items:
        yield from _item(item, depth + 1)
    for line in region.lines:
        yield from _line(line, depth + 1)


def _fields(fields: Iterable[FieldChange], depth: int) -> Iterator[Row]:
    for field in fields:
        yield Row(f"{field.name} {field.before} -> {field.after}", "field", depth)


def _code(changes: Iterable[TextChange], depth: int) -> Iterator[Row]:
    for change in changes:
        yield Row(f"line {change.start}", "place", depth)
        lines = textwrap.dedent("\n".join((*change.removed, *change.added))).split("\n")
        for number, text in enumerate(lines):
            is_old = number < len(change.removed)
            yield Row(f"{'-' if is_old else '+'} {text}", "removed" if is_old else "added", depth)


# Three ways to show rows.


def to_text(rows: Iterable[Row]) -> str:
    """Plain text."""
    return "".join(f"{'  ' * row.depth}{row.text}".rstrip() + "\n" for row in rows)


#: The sixteen colours of the terminal, so that any theme fits.
_STYLES: Final = {
    "title": "bold",
    "heading": "bold blue",
    "added": "green",
    "removed": "red",
    "changed": "yellow",
    "moved": "cyan",
    "field": "",
    "place": "bright_black",
    "same": "bright_black",
    "plain": "",
}


def to_rich(rows: Iterable[Row]) -> Iterator[Text]:
    """Coloured lines for a terminal; nothing in them is taken for markup."""
    from rich.text import Text  # noqa: PLC0415 - only where it is shown

    for row in rows:
        yield Text("  " * row.depth + row.text, _STYLES[row.style])


_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 ui-monospace, monospace; margin: 2em; }}
div {{ white-space: pre-wrap; }}
.title, .heading {{ font-weight: bold; }}
.heading {{ color: #3b6ecc; }}
.added {{ color: #1a7f37; }}
.removed {{ color: #cf222e; }}
.changed {{ color: #9a6700; }}
.moved {{ color: #0b7285; }}
.place, .same {{ color: #7d8590; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def to_html(rows: Iterable[Row]) -> str:
    """A page that needs no other file; all text in it is escaped."""
    shown = list(rows)
    body = "\n".join(
        f'<div class="{row.style}" style="margin-left: {2 * row.depth}em">'
        f"{html.escape(row.text) or '&nbsp;'}</div>"
        for row in shown
    )
    return _PAGE.format(title=html.escape(shown[0].text if shown else "diff"), body=body)
