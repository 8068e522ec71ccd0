"""A faulty program as text, each fault under its line."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.text.printer import TextLine, text_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.lines import Program
    from wrapper_ir.verify.diagnostics import Diagnostic, VerificationError

_WHOLE: Final = 60
"""Programs of at most so many lines of text are shown whole."""

_CONTEXT: Final = 5
"""Lines of text shown before and after each fault of a longer program."""

_MOST: Final = 100
"""Faults shown; the rest is counted."""

#: Control characters (newline and tab excepted) are shown escaped, as in every error here.
_CONTROL: Final = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}


def render(error: VerificationError) -> str:
    """The error's message, and the program's text with each fault under its line."""
    shown = error.diagnostics[:_MOST]
    parts = [f"{error.code}: {error.message}"]
    try:
        parts.extend(annotated(error.program, shown))
    except UnprintableError:
        parts.extend(map(str, shown))
    if len(shown) < len(error.diagnostics):
        parts.append(f"... and {len(error.diagnostics) - len(shown)} more")
    return "\n".join(part.translate(_CONTROL) for part in parts)


def annotated(program: Program, diagnostics: Sequence[Diagnostic]) -> list[str]:
    """The lines of a program's text with the diagnostics between them.

    Raises:
        UnprintableError: the program is too broken to be printed.
    """
    text = list(text_lines(program, strict=False, paths=True))
    remarks = _by_line(text, diagnostics)
    if len(text) <= _WHOLE:
        wanted = set(range(len(text)))
    else:
        wanted = {n for at in remarks for n in range(at - _CONTEXT, at + _CONTEXT + 1)}
    result: list[str] = []
    width = len(str(len(text)))
    skipped = False
    for number, line in enumerate(text):
        if number not in wanted:
            skipped = True
            continue
        if skipped:
            result.append(f"{'':{width}} ...")
            skipped = False
        result.append(f"{number + 1:{width}} | {line.text}".rstrip())
        indent = len(line.text) - len(line.text.lstrip())
        for remark in remarks.get(number, ()):
            result.extend(f"{'':{width}} | {'':{indent}}{part}" for part in _remark(remark))
    if skipped:
        result.append(f"{'':{width}} ...")
    return result


def _remark(diagnostic: Diagnostic) -> Iterable[str]:
    kind = "warning" if diagnostic.rule.is_warning else "error"
    yield f"^ {kind}: {diagnostic.code} {diagnostic.message}"
    where = diagnostic.place
    yield f"  at {where} ({diagnostic.source})" if diagnostic.source else f"  at {where}"
    if diagnostic.hint:
        yield f"  hint: {diagnostic.hint}"


def _by_line(
    text: Sequence[TextLine], diagnostics: Iterable[Diagnostic]
) -> dict[int, list[Diagnostic]]:
    """The diagnostics by the index of the line of text that each belongs under."""
    starts = {line.path: number for number, line in enumerate(text) if line.path is not None}
    result: defaultdict[int, list[Diagnostic]] = defaultdict(list)
    for diagnostic in diagnostics:
        at = starts.get(diagnostic.path, 0)
        if diagnostic.part:
            at = _part(text, at, diagnostic.part, in_region=bool(diagnostic.path))
        elif not diagnostic.path:
            at = _find(text, "program ", 0)
        result[at].append(diagnostic)
    return result


def _part(text: Sequence[TextLine], at: int, part: str, *, in_region: bool) -> int:
    """The line of text that shows a part of the program or of a region of the line at ``at``."""
    if in_region:
        region, _, what = part.partition(".")
        end = _region_end(text, at, f"{region} (")
        return end[1] if what.startswith("results") else end[0]
    kind, _, rest = part.partition("[")
    if kind == "results":
        return next(n for n in reversed(range(len(text))) if text[n].text.startswith("return"))
    if kind == "inputs":
        return _find(text, "input ", int(rest.removesuffix("]")))
    table, _, name = part.partition(".")
    heads = {"symbols": f"symbol {name} ", "constants": f"constant %{name} "}
    return _find(text, heads.get(table, f"buffer %{name} "), 0)


def _find(text: Sequence[TextLine], start: str, position: int) -> int:
    """The line at ``position`` among those that begin with ``start``; 0 if there is none."""
    found = [n for n, line in enumerate(text) if line.text.startswith(start)]
    return found[position] if position < len(found) else 0


def _region_end(text: Sequence[TextLine], at: int, head: str) -> tuple[int, int]:
    """Head and results of the region whose head begins so, of the line at ``at``."""
    depth = len(text[at].text) - len(text[at].text.lstrip()) + 2
    begin = at
    for number in range(at + 1, len(text)):
        line = text[number].text
        indent = len(line) - len(line.lstrip())
        if indent == depth and line.lstrip().startswith(head):
            begin = number
        elif indent == depth and line.strip() == "}" and begin != at:
            return begin, number - 1
        elif indent < depth and line:
            break
    return begin, begin
