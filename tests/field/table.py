"""Faults of wrappers seen in the field: programs, and what refuses each.

``python -m tests.field.table --write`` writes the table in ``docs/soundness.md``. The head of each
``.wir`` file here names the issue and what has to find the fault.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import wrapper_ir as wir
from tests.field import ranks
from tests.field.graphs import GRAPHS, graph_of
from tests.pages import ROOT
from wrapper_ir.frontends.inductor.contract import contract_of
from wrapper_ir.verify.contract import breaches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir import Program
    from wrapper_ir.verify.diagnostics import Diagnostic

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.wir"))
PAGE = ROOT / "docs" / "soundness.md"

_TABLE = re.compile(r"(<!-- made by tests/field/table.py -->\n)(?:.*?)(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Fault:
    """One fault: what is known of it, and what refuses it here."""

    issue: str
    what: str
    found: tuple[str, ...]  #: who finds it and by which rule, such as ``verify WIR1089``


def told(file: Path) -> Fault:
    """Return what the head of a file says."""
    first, second = file.read_text(encoding="utf-8").splitlines()[:2]
    issue, _, what = first.removeprefix("; ").partition(": ")
    return Fault(issue, what, tuple(second.removeprefix("; found: ").split(", ")))


def program_of(file: Path) -> Program:
    """Return the program in a file."""
    return wir.parse(file.read_text(encoding="utf-8"))


def findings(file: Path) -> Iterator[tuple[str, Diagnostic]]:
    """Yield all that is found of a program, with who finds it."""
    program = program_of(file)
    for each in wir.diagnose(program):
        yield "verify", each
    if file.stem in GRAPHS:
        graph = graph_of(file.stem)
        for each in breaches(program, contract_of(graph.graph)):
            yield "contract", each
        for each in wir.validate(program, graph).faults:
            yield "validate", each


def seen(file: Path) -> tuple[str, ...]:
    """Return who finds the fault in a file, and by which rule."""
    return tuple(dict.fromkeys(f"{who} {each.code}" for who, each in findings(file)))


def rows() -> list[Fault]:
    """Return all faults with what refuses them, those of single programs first."""
    single = [Fault(told(file).issue, told(file).what, seen(file)) for file in FILES]
    several = [
        Fault(
            issue, what, tuple(f"verify_ranks {p.kind}" for p in wir.verify_ranks(made()).problems)
        )
        for (issue, what), made in ranks.FAULTS.items()
    ]
    return [*sorted(single, key=lambda each: each.issue), *several]


def made(page: str) -> str:
    """Return the page with a new table."""
    lines = ["| issue | the program | refused by |", "|---|---|---|"]
    lines += [f"| {row.issue} | {row.what} | {', '.join(row.found)} |" for row in rows()]
    table = "\n".join(lines)
    return _TABLE.sub(lambda part: f"{part[1]}{table}\n{part[2]}", page)


def main() -> None:
    """Write the table into the page, or fail if the page is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write it into the page")
    page = PAGE.read_text(encoding="utf-8")
    wanted = made(page)
    if parser.parse_args().write:
        PAGE.write_text(wanted, encoding="utf-8")
    elif wanted != page:
        raise SystemExit(f"{PAGE} is not what is found; --write makes it so")


if __name__ == "__main__":
    main()
