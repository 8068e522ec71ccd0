"""What was found: kept as lines of JSON, shown as a table, written into the documentation."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from tests.zoo.check import EMITTERS, MODES, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["Findings", "section", "shown", "summary", "table", "write_section"]

_BEGIN, _END = "<!-- zoo -->", "<!-- /zoo -->"

_INTRODUCTION = """\
`make zoo` takes models at toy sizes through `torch.compile`: once by stock Inductor, then by each
emitter. Results with their strides and aliases, arguments, gradients, state and random state have
to be the same to the bit, at each of several calls with fresh inputs, and each graph that Inductor
lowered has to be ours, every line typed. *forward* calls twice; *backward* is two training steps;
*dynamic* is one compilation for three batch sizes (when decoding: three lengths); *export* is
`torch.export`, `wir.capture`, `wir.export` as `.so` and `.pt2`, loaded by torch in a fresh process
and compared with the Python emitter to the bit. What stock cannot do itself is skipped. This table
is written by `python -m tests.zoo --write`.
"""

Key = tuple[str, str, str]


class Findings:
    """Outcomes by model, mode and emitter; what is found again replaces what was.

    Args:
        path: A file to read first, if it is there, and to append to; None: kept in memory alone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[Key, Outcome] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                self._keep(Outcome(**json.loads(line)))

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        self._keep(outcome)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(outcome)) + "\n")

    def get(self, model: str, mode: str, emitter: str) -> Outcome | None:
        """Return what was found, None where it was not tried."""
        return self._found.get((model, mode, emitter))

    def all(self) -> list[Outcome]:
        """Return everything."""
        return list(self._found.values())

    def _keep(self, outcome: Outcome) -> None:
        self._found[outcome.model, outcome.mode, outcome.emitter] = outcome


def summary(outcomes: Iterable[Outcome]) -> str:
    """Say in a line how many passed."""
    counts = Counter(outcome.state for outcome in outcomes)
    return ", ".join(f"{counts[state]} {state}" for state in ("passed", "failed", "skipped"))


def shown(outcomes: Sequence[Outcome]) -> Table:
    """Return the table for a terminal: a row for each model and mode, reasons under them."""
    table = Table("model", "kind", "mode", "graphs", "lines", *EMITTERS, "why")
    colours = {"passed": "green", "failed": "bold red", "skipped": "yellow"}
    for (model, mode), row in _rows(outcomes).items():
        some = next(iter(row.values()))
        graphs = max(outcome.graphs for outcome in row.values())
        lines = max(outcome.lines for outcome in row.values())
        states = [row[e].state if e in row else "" for e in EMITTERS]
        cells = [f"[{colours[s]}]{s}[/]" if s else "" for s in states]
        why = "; ".join(dict.fromkeys(o.why for o in row.values() if o.why))
        table.add_row(model, some.kind, mode, str(graphs), str(lines), *cells, escape(why))
    return table


def _rows(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], dict[str, Outcome]]:
    rows: dict[tuple[str, str], dict[str, Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.model, outcome.mode), {})[outcome.emitter] = outcome
    return rows


def section(*tables: str) -> str:
    """Return the section of the documentation as Markdown: what is done, and tables of it."""
    return "\n\n".join([_INTRODUCTION.rstrip(), *tables])


def table(outcomes: Sequence[Outcome], versions: str) -> str:
    """Return what was found with some versions of libraries as Markdown."""
    modes = [mode for mode in MODES if any(o.mode == mode for o in outcomes)]
    models = list(dict.fromkeys(o.model for o in outcomes))
    graphs = _graphs(outcomes)
    lines = [
        f"{len(models)} models with {versions}: {summary(outcomes)}, {graphs} graphs.",
        "",
        "| kind | model | graphs | lines | " + " | ".join(modes) + " |",
        "|---|---|---:|---:|" + "---|" * len(modes),
    ]
    rows = _rows(outcomes)
    for model in sorted(models, key=lambda m: next(o.kind for o in outcomes if o.model == m)):
        row = rows.get((model, "forward")) or next(r for k, r in rows.items() if k[0] == model)
        first = max(row.values(), key=lambda outcome: outcome.graphs)
        cells = [_cell(rows.get((model, mode), {})) for mode in modes]
        numbers = f"{first.graphs} | {first.lines}"
        lines.append(f"| {first.kind} | {model} | {numbers} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *_reasons(outcomes)])


def _graphs(outcomes: Sequence[Outcome]) -> int:
    """Count the graphs, each once and not for each emitter."""
    found: dict[tuple[str, str], int] = {}
    for o in outcomes:
        found[o.model, o.mode] = max(o.graphs, found.get((o.model, o.mode), 0))
    return sum(found.values())


def _cell(row: dict[str, Outcome]) -> str:
    """Say how a mode fared: a word where all emitters fared alike."""
    states = {emitter: row[emitter].state for emitter in EMITTERS if emitter in row}
    if len(set(states.values())) <= 1 and (
        len(states) in (0, len(EMITTERS)) or "export" in _modes(row)
    ):
        return next(iter(states.values()), "")
    return ", ".join(f"{emitter} {state}" for emitter, state in states.items())


def _modes(row: dict[str, Outcome]) -> set[str]:
    return {outcome.mode for outcome in row.values()}


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the reasons of all that did not pass, each with whom it concerns."""
    reasons: dict[str, list[str]] = {}
    for o in outcomes:
        if o.why:
            reasons.setdefault(f"{o.state}: {o.why}", []).append(f"{o.model} {o.mode}")
    if not reasons:
        return []
    rows = (
        f"| {', '.join(dict.fromkeys(whom))} | {_quoted(why)} |" for why, whom in reasons.items()
    )
    return ["", "| what did not pass | why |", "|---|---|", *rows]


def _quoted(text: str) -> str:
    short = text if len(text) < 160 else f"{text[:157]}..."
    return short.replace("|", "\\|").replace("<", "&lt;")


def write_section(path: Path, body: str) -> None:
    """Put the tables into their section of a document, which may not be there yet."""
    text = path.read_text() if path.exists() else "# Whole models\n"
    if _BEGIN not in text:
        text = f"{text.rstrip()}\n\n{_BEGIN}\n{_END}\n"
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    path.write_text(f"{head}{_BEGIN}\n{body}\n{_END}{tail}")
