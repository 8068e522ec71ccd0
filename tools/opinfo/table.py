"""Verdicts, stored as JSON lines, shown as a table and written into a document."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["PASSED", "Findings", "kind", "section", "write", "written"]

PASSED = "passed"
_KEY = ("torch", "dtype", "op")
_LABEL = re.compile(r"(?:nn modules, )?\w+(?:, backward)?(?:, dynamic)?(?:, cuda)?")
_BEGIN, _END = "<!-- opinfo -->", "<!-- /opinfo -->"


class Findings:
    """The verdicts by torch release, element type and op; later ones replace earlier ones.

    Args:
        path: The file, read if it exists and appended to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[tuple[str, str, str], dict[str, Any]] = {}
        if path.exists():
            self.merge(path)

    def add(self, dtype: str, op: str, verdict: dict[str, Any]) -> None:
        """Store the verdict on an op."""
        row = {"torch": torch_version(), "dtype": dtype, "op": op, **verdict}
        self._merge(row)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def merge(self, path: Path) -> None:
        """Merge another run's verdicts, without writing them to the file."""
        for line in path.read_text().splitlines():
            self._merge(json.loads(line))

    def missing(self, dtype: str, op: str, emitters: Iterable[str]) -> bool:
        """Check whether an op has yet to be tried."""
        row = self.rows.get((torch_version(), dtype, op))
        if row is None:
            return True
        return row["stock"] == PASSED and not set(emitters) <= row.keys()

    def amiss(self) -> frozenset[str]:
        """Return the ops that failed, or were not compared, in some element type."""
        return frozenset(
            op
            for (_, _, op), row in self.rows.items()
            if kind(row["stock"]) != "no sample"
            and any(isinstance(v, str) and v != PASSED for k, v in row.items() if k not in _KEY)
        )

    def _merge(self, row: dict[str, Any]) -> None:
        key = (row["torch"], row["dtype"], row["op"])
        self.rows[key] = {**self.rows.get(key, {}), **row}

    def failures(self) -> list[str]:
        """Return a line for each op in which an emitter and stock Inductor disagree."""
        return [
            f"torch {torch}, {dtype} {op}, {emitter}: {verdict}"
            for (torch, dtype, op), row in sorted(self.rows.items())
            for emitter, verdict in row.items()
            if str(verdict).startswith("failed")
        ]


def kind(verdict: str) -> str:
    """Return a verdict without its reason."""
    return verdict.partition(":")[0]


def tables(findings: Findings, emitters: tuple[str, ...], before: str = "") -> str:
    """Return the tables as Markdown; rows that were not tried now come from an earlier text."""
    kinds = list(dict.fromkeys(key[:2] for key in findings.rows))
    lines = ["| torch | element type | ops | no sample | stock fails | no graph |"]
    lines[0] += "".join(f" {emitter}: passed | failed |" for emitter in emitters)
    lines.append("|---" * (6 + 2 * len(emitters)) + "|")
    lines += [line for line in _rows(before, lines[0]) if tuple(_cells(line)[:2]) not in kinds]
    for each in kinds:
        rows = [row for key, row in findings.rows.items() if key[:2] == each]
        stock = Counter(kind(row["stock"]) for row in rows)
        fails = stock["stock fails"] + stock["the process is lost"]
        graphless = sum(any(kind(str(v)) == "no graph" for v in row.values()) for row in rows)
        cells = [*each, len(rows), stock["no sample"], fails, graphless]
        for emitter in emitters:
            verdicts = Counter(kind(row.get(emitter, "")) for row in rows)
            cells += [verdicts[PASSED], verdicts["failed"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _rows(text: str, heading: str) -> list[str]:
    """Return the rows of a table in a text."""
    below = text.partition(heading)[2].partition("\n\n")[0].splitlines()
    return [line for line in below if line.startswith("| ")]


def _cells(line: str) -> list[str]:
    return re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |"))


_Reasons = dict[str, dict[str, set[str]]]  #: The labels of rows, by reason and op.


def skipped(findings: Findings, before: str = "") -> str:
    """Return the ops that were not compared, with element types and reasons, as Markdown."""
    heading = "| why | ops |"
    reasons = _reasons_in(_rows(before, heading), {label for _, label, _ in findings.rows})
    for (_, dtype, op), row in sorted(findings.rows.items()):
        verdicts = [str(row["stock"]), *(str(v) for k, v in row.items() if k == "python")]
        reason = next((v for v in verdicts if v != PASSED), None)
        if reason is None or kind(reason) == "no sample":
            continue
        text = reason if len(reason) < 120 else reason[:117] + "..."
        text = text.replace("|", "\\|").replace("<", "&lt;")
        reasons.setdefault(text, {}).setdefault(op, set()).add(dtype)
    lines = [heading, "|---|---|"]
    for why, ops in sorted(reasons.items()):
        named = (f"{op} ({'; '.join(sorted(dtypes))})" for op, dtypes in ops.items())
        lines.append(f"| {why} | {', '.join(named)} |")
    return "\n".join(lines)


def _reasons_in(rows: list[str], but: set[str]) -> _Reasons:
    """Parse rows written by ``skipped``, leaving out some labels."""
    reasons: _Reasons = {}
    for why, ops in map(_cells, rows):
        for op, labels in re.findall(r"([^,()]+) \(([^()]*)\)", ops):
            if left := set(_LABEL.findall(labels)) - but:
                reasons.setdefault(why, {})[op.strip()] = left
    return reasons


def section(findings: Findings, emitters: tuple[str, ...], before: str = "") -> str:
    """Return the section about the ops as Markdown.

    Args:
        findings: The verdicts.
        emitters: The columns.
        before: An earlier text; its entries stay for rows that were not tried now.
    """
    return f"""\
Written by `make opinfo`. Each op of torch's `op_db`, with the first one or two of its samples, goes
through stock Inductor and through us in one process, on one thread. Results with their layouts,
arguments and the state of the random generator are the same to the bit, or the op has failed; so it
has where a graph that Inductor lowered did not go through us. An op that has not been tried yet in
some way counts as neither. Element types with fewer ops are sampled.

*backward*: the inputs require gradients, and the gradients that made-up ones of the results lead to
have to be the same too, with their strides; an op without any counts as one without a sample.
*dynamic*: sizes are symbols. *nn modules*: the modules of torch's `module_db`, in training and in
evaluation where these differ, with samples from all over its list; so are parameters and buffers.
*cuda*: on a GPU, every third op (`--device cuda --every 3`); elsewhere on a CPU.

{tables(findings, emitters, before)}

Not compared, besides ops that have no sample of their type for the device:

{skipped(findings, before)}
"""


def written(path: Path) -> str:
    """Return a document's section about the ops; empty if it has none."""
    text = path.read_text() if path.exists() else ""
    return text.partition(_BEGIN)[2].partition(_END)[0]


def torch_version() -> str:
    """Return the installed torch's release."""
    return version("torch").partition("+")[0]


def write(path: Path, body: str) -> None:
    """Write a text into its section of a document."""
    text = path.read_text() if path.exists() else f"# Samples of ops\n\n{_BEGIN}\n{_END}\n"
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    path.write_text(f"{head}{_BEGIN}\n{body}\n{_END}{tail}")
