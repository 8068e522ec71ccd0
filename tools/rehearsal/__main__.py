"""Run the rehearsal: ``python -m tools.rehearsal [--only WORD] [--write]``."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Final

from tools.rehearsal.changes import CHANGES
from tools.rehearsal.overlay import Overlay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.rehearsal.changes import Change

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change came to.

    Attributes:
        end: ``right``, ``named``, ``stock``, or a fault.
        words: Of the error or the warning.
        steps: Which steps ended so, of all.
    """

    end: str
    words: str
    steps: str

    @property
    def is_fault(self) -> bool:
        """Whether it must not be so."""
        return self.end not in ("right", "named", "stock")


def rehearse(change: Change, room: Path, names: Queue[str]) -> Outcome:
    """Run the program in a torch with one change.

    The next one stands in the same place, so that kernels are found compiled.
    """
    name = names.get()
    try:
        torch = Overlay(room / name)
        change.make(torch)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{torch.folder}{os.pathsep}{_ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "WRAPPER_IR_TRY_TORCH": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(room / "cache"),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        }
        command = [sys.executable, "-W", "ignore", "-m", "tools.rehearsal.program"]
        done = subprocess.run(
            command, env=environment, cwd=room, capture_output=True, text=True, check=False
        )
    finally:
        shutil.rmtree(room / name, ignore_errors=True)
        names.put(name)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not rows:
        return Outcome("the process failed", done.stderr[-2000:], "")
    return worst([(row["end"], row["words"]) for row in rows], change.words)


def worst(rows: list[tuple[str, str]], words: tuple[str, ...]) -> Outcome:
    """Return what several steps came to: a fault if there is one, else an error, else the rest."""
    judged = [_judged(end, said, words) for end, said in rows]
    order = ("right", "stock", "named")
    end, said = max(judged, key=lambda each: order.index(each[0]) if each[0] in order else 9)
    return Outcome(end, said, f"{sum(each[0] == end for each in judged)} of {len(judged)}")


def _judged(end: str, said: str, words: tuple[str, ...]) -> tuple[str, str]:
    if end not in ("error", "stock"):
        return end, said
    is_named = re.search(r"WIR\d{4}", said) and any(word in said for word in words)
    if end == "stock":
        return ("stock" if is_named else "a warning that names nothing"), said
    return ("named" if is_named else "an error that names nothing"), said


_PAGE: Final = _ROOT / "docs/rehearsal.md"

_ENDS: Final = {
    "right": "works",
    "named": "an error",
    "stock": "torch's own backend, with a warning",
}


def row(change: Change, outcome: Outcome) -> str:
    """Return a row of the page's table, without what differs from machine to machine."""
    told = re.search(r"WIR\d{4}: .*", outcome.words)
    words = told[0] if told else ""
    words = re.sub(r"the Inductor front end does not support torch [^:]*: ", "", words)
    words = re.sub(r" \((in )?\S*[,/].*", "", words).replace("|", "\\|")  # the place
    words = words if len(words) <= _WIDTH else words[:_WIDTH].rsplit(" ", 1)[0] + " …"
    ends = _ENDS.get(outcome.end, outcome.end)
    return f"| {change.what} | {ends}, {outcome.steps} | {f'`{words}`' if words else ''} |"


#: Characters of an error that the page shows.
_WIDTH: Final = 150


def _write(rows: Iterable[str]) -> None:
    """Put the rows into the page, below the head of its table, and the day above it."""
    head, mark, rest = _PAGE.read_text(encoding="utf-8").partition("|---|---|---|\n")
    today = datetime.now(tz=UTC)
    head = re.sub(r"(The last run, on )[^,]*", rf"\g<1>{today.day} {today:%B %Y}", head)
    rest = rest[rest.index("\n\n") :]
    _PAGE.write_text(head + mark + "\n".join(rows) + rest, encoding="utf-8")


def main() -> None:
    """Run every change, and print a line for each; the status is 1 if one came to a fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="changes with this text in their words")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    changes = [change for change in CHANGES if options.only in change.what]
    names: Queue[str] = Queue()
    for number in range(options.jobs):
        names.put(f"torch_{number}")
    with tempfile.TemporaryDirectory() as room, ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(partial(rehearse, room=Path(room), names=names), changes)
        rows, faults = [], 0
        for change, outcome in zip(changes, found, strict=True):
            print(
                f"{change.what}\n    {outcome.end} ({outcome.steps}): {outcome.words}", flush=True
            )
            rows.append(row(change, outcome))
            faults += outcome.is_fault
    if options.write:
        _write(rows)
    print(f"{len(changes)} changes, {faults} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
