"""Faults of Inductor's wrapper layer as programs, and who refuses them.

A file begins with remarks: what the fault is, where it was reported, and who refuses the program,
by which code. A remark behind a line names the codes that are reported there. Several ranks of one
fault are files ``name.rank0.wir``, ``name.rank1.wir``. In :mod:`tests.field.graphs` is the graph,
where the fault is that the program is not what its graph says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import wrapper_ir as wir
from tests.field.graphs import graph_of
from tests.pages import ROOT
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor.contract import contract_of
from wrapper_ir.lines import BufferInput
from wrapper_ir.text.errors import TextError
from wrapper_ir.text.printer import text_lines
from wrapper_ir.verify.contract import breaches
from wrapper_ir.verify.ranks import RanksDisagreeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from wrapper_ir import Program
    from wrapper_ir.verify.diagnostics import Diagnostic

FOLDER = Path(__file__).parent

#: Who refuses a program, in the order in which they are asked, as the page says it.
FINDERS = {
    "verify": "verifier",
    "contract": "contract",
    "validate": "`validate`",
    "run": "`validate(run=True)`",
    "ranks": "`verify_ranks`",
    "parse": "cannot be written",
}

_LOCATION = re.compile(r" loc\(#\d+\)")


@dataclass(frozen=True)
class Refusal:
    """What is said of a program.

    Attributes:
        by: Who says it, one of ``FINDERS``.
        code: The code.
        line: The text of the line where it is said.
        message: What is said.
        source: The line of the model.
    """

    by: str
    code: str
    line: str
    message: str
    source: str


@dataclass(frozen=True)
class Fault:
    """A fault: its name, the remarks at the head of its file, and the texts of its programs."""

    name: str
    about: str
    issue: str
    refused_by: str
    texts: tuple[str, ...]

    @property
    def marks(self) -> set[tuple[str, str]]:
        """The lines with a remark, and the codes that it names."""
        rows = [line.split(" ; error: ") for text in self.texts for line in text.splitlines()]
        return {
            (_plain(row[0]), code) for row in rows if len(row) == 2 for code in row[1].split(", ")
        }

    def refusals(self) -> list[Refusal]:
        """Ask all who may refuse the programs. They are run only if nobody else does."""
        try:
            programs = [wir.parse(text) for text in self.texts]
        except TextError as error:
            return [Refusal("parse", error.code, _plain(error.place.text), str(error), "")]
        if len(programs) > 1:
            return list(_by_ranks(programs))
        (program,) = programs
        found = list(_told("verify", program, wir.diagnose(program)))
        graph = graph_of(self.name, program)
        if graph is None:
            return found
        found += _told("contract", program, breaches(program, contract_of(graph.graph)))
        found += _told("validate", program, wir.validate(program, graph).faults)
        return found or list(_by_run(program, graph))


def faults() -> list[Fault]:
    """Return all faults, those of the graph first."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(FOLDER.glob("*.wir")):
        texts[file.name.partition(".")[0]].append(file.read_text(encoding="utf-8"))
    found = [_read(name, each) for name, each in texts.items()]
    order = list(FINDERS)
    return sorted(found, key=lambda each: (order.index(each.refused_by.split()[0]), each.name))


def _read(name: str, texts: list[str]) -> Fault:
    head = [line[2:] for line in texts[0].split("\nwir 2\n")[0].splitlines()]
    *about, issue, refused_by = head
    return Fault(
        name,
        " ".join(about),
        issue.removeprefix("issue: "),
        refused_by.removeprefix("refused by: "),
        tuple(texts),
    )


def in_words(refusals: Iterable[Refusal]) -> str:
    """Return who refuses a program as its file says it."""
    codes: defaultdict[str, set[str]] = defaultdict(set)
    for each in refusals:
        codes[each.by].add(each.code)
    return ", ".join(f"{by} {code}" for by in FINDERS for code in sorted(codes[by]))


def _plain(line: str) -> str:
    return _LOCATION.sub("", line.partition(" ; error: ")[0]).strip()


def _told(by: str, program: Program, diagnostics: Iterable[Diagnostic]) -> Iterator[Refusal]:
    for each in diagnostics:
        line = _line(program, str(each.path), each.part)
        yield Refusal(by, each.code, line, str(each), each.source)


def _line(program: Program, path: str, part: str) -> str:
    """Return the text of a line of a program, or of an input or its results."""
    rows = list(text_lines(program, strict=False, paths=True))
    if path:
        return next(_plain(row.text) for row in rows if str(row.path) == path)
    if part.startswith("results"):
        return _plain(rows[-1].text)
    item = program.inputs[int(part.removeprefix("inputs[").removesuffix("]"))]
    assert isinstance(item, BufferInput)
    return next(row.text for row in rows if row.text.startswith(f"input %{item.name} "))


def _by_run(program: Program, graph: torch.fx.GraphModule) -> Iterator[Refusal]:
    try:
        yield from _told("run", program, wir.validate(program, graph, run=True).faults)
    except WrapperIRError as error:
        line = _line(program, str(error.path), "")
        yield Refusal("run", error.code, line, str(error), str(error.origin))


def _by_ranks(programs: list[Program]) -> Iterator[Refusal]:
    report = wir.verify_ranks(programs)
    code = RanksDisagreeError.code
    for where in (where for problem in report.problems for where in problem.where):
        line = _line(programs[where.rank], where.path, "")
        yield Refusal("ranks", code, line, where.says, where.source)


# The page.

PAGE = ROOT / "docs" / "soundness.md"

_TABLE = re.compile(r"(<!-- made by tests/field -->\n)(?:.*?)(<!-- end -->)", re.DOTALL)


def table() -> str:
    """Return a row for each fault, from what is said of it now."""
    rows = ["| fault | reported as | refused by |", "|---|---|---|"]
    for each in faults():
        codes: defaultdict[str, list[str]] = defaultdict(list)
        for part in in_words(each.refusals()).split(", "):
            by, _, code = part.partition(" ")
            codes[FINDERS[by]].append(code)
        words = ", ".join(f"{by} ({', '.join(found)})" for by, found in codes.items())
        rows.append(f"| {each.about} | {each.issue} | {words} |")
    return "\n".join(rows)


def made(page: str) -> str:
    """Return the page with a regenerated table."""
    return _TABLE.sub(lambda part: f"{part[1]}{table()}\n{part[2]}", page)
