"""Runs odd functions in every emitter and compares each with stock Inductor, bit by bit.

    python -m tests.odd [--functions GLOB,...] [--way WAY] [--json FILE]

Results, arguments afterwards, what shares storage, gradients, random state and the classes of
errors have to be the same, and every graph that Inductor lowers has to be ours. A function that
stock refuses has to be refused. What differs from stock has to be as in eager. The status is 1
where anything is neither.
"""

from __future__ import annotations

import argparse
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import tests.odd.programs
import tests.odd.values  # noqa: F401 - registers its functions
from tests.odd import kit
from tests.odd.verdict import by_eager, verdict
from tests.odd.ways import EMITTERS, WAYS
from tools.workers import LostError, Worker

WORKER = (sys.executable, "-m", "tests.odd.worker")


def main() -> int:
    """Try what is asked for, and say of each how it fared."""
    options = _options()
    kept = Kept(options.json)
    worker = Worker(WORKER)
    failed = total = 0
    for name in _chosen(options.functions):
        stock = kept.ask(worker, name, "stock", options.timeout)
        for way in options.way or (*EMITTERS, "export"):
            if way == "export" and not kit.CASES[name].export:
                continue
            ours = kept.ask(worker, name, way, options.timeout)
            found = verdict(way, stock, ours)
            if found.is_bad and way in EMITTERS:
                found = by_eager(found, kept.ask(worker, name, "eager", options.timeout), ours)
            total += 1
            failed += found.is_bad
            print(f"{name:40} {way:10} {found.text}", flush=True)
        if worker.answered > 40:
            worker.stop()  # it keeps what it loads
    worker.stop()
    print(f"{total - failed} the same as stock, {failed} not")
    return int(bool(failed))


class Kept:
    """Answers by function and way, kept as lines of JSON, so that a run can go on where it was."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[tuple[str, str], Any] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                name, way, answer = json.loads(line)
                self._found[name, way] = answer

    def ask(self, worker: Worker, name: str, way: str, timeout: float) -> Any:
        """Return what a function does in a way; whatever becomes of the worker, there is one."""
        if (name, way) not in self._found:
            try:
                answer = json.loads(worker.ask(json.dumps([name, way]), timeout))
            except LostError as error:
                answer = {"said": {"lost": str(error)}, "lowered": 0, "programs": 0}
            self._found[name, way] = answer
            if self._path is not None:
                with self._path.open("a") as file:
                    print(json.dumps([name, way, answer]), file=file)
        return self._found[name, way]


def _chosen(patterns: str) -> list[str]:
    found = (name for glob in patterns.split(",") for name in kit.CASES if fnmatchcase(name, glob))
    return list(dict.fromkeys(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.odd", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--functions", default="*", help="globs of names, with commas (*)")
    parser.add_argument(
        "--way", action="append", choices=WAYS, help="may be repeated (all of ours)"
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one of them (600)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep answers, and go on from them"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
