"""Diagnostics of the verifier: one for each fault, and one error that holds them all.

The error shows the faulty program as text, each fault under its line.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import Origin, Path
from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.text.printer import TextLine, text_lines
from wrapper_ir.verify.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wrapper_ir.lines import Program


_WHOLE: Final = 60
"""Programs of at most so many lines of text are shown whole."""

_CONTEXT: Final = 5
"""Lines of text shown before and after each fault of a longer program."""

_MOST: Final = 100
"""Faults shown; the rest is counted."""

#: Control characters (newline and tab excepted) are shown escaped, as in every error here.
_CONTROL: Final = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault: which rule, what is wrong, where, and what to do about it.

    Attributes:
        rule: The rule that is broken.
        message: What is wrong, in words.
        path: The line; empty where the fault is in the program's own tables or results.
        part: Which part of the line or program, such as ``results[0]``, ``inputs[2]`` or
            ``then.results[1]``; empty for the line as a whole.
        origin: Where in the model the line comes from, when that is known.
        hint: What to do about it; may be empty.
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
        """Path and part in one, such as ``body[3].then.results[0]``; ``program`` for the whole."""
        return ".".join(filter(None, (str(self.path), self.part))) or "program"

    @property
    def source(self) -> str:
        """The model's source line; where not known, its module or fx nodes; may be empty."""
        if self.origin is None:
            return ""
        return self.origin.place or self.origin.module or ", ".join(self.origin.nodes)

    def __str__(self) -> str:
        return "\n".join((f"{self.code}: {self.message}", *self.details()))

    def details(self) -> Iterator[str]:
        """Yield the lines below the message: the place, and the hint if there is one."""
        yield f"  at {self.place} ({self.source})" if self.source else f"  at {self.place}"
        if self.hint:
            yield f"  hint: {self.hint}"


class VerificationError(WrapperIRError):
    """A program breaks rules of the IR; holds every diagnostic.

    ``str`` of it is the program's text with each fault under its line. ``diagnostics`` has them as
    data, ``program`` is what was verified.
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
    """Return the error's message, and the program's text with each fault under its line."""
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
    """Return the lines of a program's text with the diagnostics between them.

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


def _remark(diagnostic: Diagnostic) -> Iterator[str]:
    kind = "warning" if diagnostic.rule.is_warning else "error"
    yield f"^ {kind}: {diagnostic.code} {diagnostic.message}"
    yield from diagnostic.details()


def _by_line(
    text: Sequence[TextLine], diagnostics: Iterable[Diagnostic]
) -> dict[int, list[Diagnostic]]:
    """Return the diagnostics by the index of the line of text that each belongs under."""
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
    """Return the line of text that shows a part of the program or of a region of the line at ``at``."""
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
    heads["tangents"] = "tangents "
    return _find(text, heads.get(table, f"buffer %{name} "), 0)


def _find(text: Sequence[TextLine], start: str, position: int) -> int:
    """Return the line at ``position`` among those that begin with ``start``; 0 if there is none."""
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
