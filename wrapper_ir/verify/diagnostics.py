"""Diagnostics of the verifier, and the error that holds them.

The error shows the text of the program with each diagnostic under its line.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import Origin, Path, Program
from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.text.printer import TextLine, text_lines
from wrapper_ir.verify.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


_WHOLE: Final = 60
"""The most lines of text of a program that is shown whole."""

_CONTEXT: Final = 5
"""The number of lines shown before and after each fault of a longer program."""

_MOST: Final = 100
"""The most faults that are shown. The rest is counted."""

#: Control characters (newline and tab excepted) are shown escaped, as in every error here.
_CONTROL: Final = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault: the rule, the message, the place and a hint.

    Attributes:
        rule: The violated rule.
        message: A description of the fault.
        path: The line; empty for faults in the program's tables, inputs or results.
        part: The part of the line or program, such as ``results[0]``, ``inputs[2]`` or
            ``then.results[1]``; empty for the line as a whole.
        origin: The line's origin in the model, if known.
        hint: Advice on how to fix it; may be empty.
    """

    rule: Rule
    message: str
    path: Path = field(default_factory=Path)
    part: str = ""
    origin: Origin | None = None
    hint: str = ""

    @property
    def code(self) -> str:
        """The rule's stable code."""
        return self.rule.code

    @property
    def place(self) -> str:
        """Path and part, such as ``body[3].then.results[0]``; ``program`` for the whole program."""
        return ".".join(filter(None, (str(self.path), self.part))) or "program"

    @property
    def source(self) -> str:
        """The source line in the model, or else the module or fx nodes; may be empty."""
        if self.origin is None:
            return ""
        return self.origin.place or self.origin.module or ", ".join(self.origin.nodes)

    def __str__(self) -> str:
        return "\n".join((f"{self.code}: {self.message}", *self.details()))

    def as_data(self) -> dict[str, str]:
        """Return it as plain data, for JSON."""
        severity = "warning" if self.rule.is_warning else "error"
        rule = {"code": self.code, "rule": self.rule.name, "severity": severity}
        where = {"place": self.place, "path": str(self.path), "source": self.source}
        return {**rule, "message": self.message, **where, "hint": self.hint}

    def details(self) -> Iterator[str]:
        """Yield the lines below the message: the place, and the hint if there is one."""
        yield f"  at {self.place} ({self.source})" if self.source else f"  at {self.place}"
        if self.hint:
            yield f"  hint: {self.hint}"


class VerificationError(WrapperIRError):
    """A program violates rules of the IR.

    ``str`` shows the program's text with each fault under its line. ``diagnostics`` holds the
    faults as data, ``program`` the program.
    """

    code = "WIR1000"
    template = "{name} breaks {count}"

    def __init__(self, program: Program, diagnostics: tuple[Diagnostic, ...]) -> None:
        #: The faulty program.
        self.program = program
        #: Every fault, in the order of the program.
        self.diagnostics = diagnostics
        count = len(diagnostics)
        super().__init__(
            name=f"program {program.name!r}",
            count="one rule" if count == 1 else f"the rules {count} times",
            path=diagnostics[0].place if diagnostics else None,
        )

    def __str__(self) -> str:
        return _render(self)

    def __reduce__(
        self,
    ) -> tuple[Callable[..., WrapperIRError], tuple[type[WrapperIRError], dict[str, object]]]:
        """Pickle with the program, whose text ``str`` shows."""
        rebuild, _ = super().__reduce__()
        return rebuild, (type(self), {"program": self.program, "diagnostics": self.diagnostics})


# The text: the program with each fault under its line.


def _render(error: VerificationError) -> str:
    """Return the message and the program's text with each fault under its line."""
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
    """Return the lines of a program's text with the diagnostics between them."""
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


def _remark(diagnostic: Diagnostic) -> Iterator[str]:
    kind = "warning" if diagnostic.rule.is_warning else "error"
    yield f"^ {kind}: {diagnostic.code} {diagnostic.message}"
    yield from diagnostic.details()


def _by_line(text: Sequence[TextLine], found: Iterable[Diagnostic]) -> dict[int, list[Diagnostic]]:
    """Group diagnostics by the index of the line of text to show them under."""
    starts = {line.path: number for number, line in enumerate(text) if line.path is not None}
    result: defaultdict[int, list[Diagnostic]] = defaultdict(list)
    for diagnostic in found:
        at = starts.get(diagnostic.path, 0)
        if diagnostic.part:
            at = _part(text, at, diagnostic.part, in_region=bool(diagnostic.path))
        elif not diagnostic.path:
            at = _find(text, "program ", 0)
        result[at].append(diagnostic)
    return result


def _part(text: Sequence[TextLine], at: int, part: str, *, in_region: bool) -> int:
    """Return the index of the line of text that shows a part of the program or of a region."""
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
    heads |= {"tangents": "tangents ", "folding": "folding"}
    return _find(text, heads.get(table, f"buffer %{name} "), 0)


def _find(text: Sequence[TextLine], start: str, position: int) -> int:
    """Return the index of the ``position``-th line that starts with ``start``; 0 if none."""
    found = [n for n, line in enumerate(text) if line.text.startswith(start)]
    return found[position] if position < len(found) else 0


def _region_end(text: Sequence[TextLine], at: int, head: str) -> tuple[int, int]:
    """Return the indices of the head and results of a region of the line at ``at``."""
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
