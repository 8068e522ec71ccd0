"""Draws workloads at sizes of real models and compares each with stock Inductor, bit by bit.

    python -m tests.sweep [--device cuda] [--seconds 240] [--seed 0] [--try WORKLOAD]

A run goes on where the last one with the same seed ended: what was found is kept in a file, a line
of JSON for each workload. Shown last are failures, each with the command that repeats it, and what
of Inductor's code that writes wrappers was reached. The status is 1 where anything is amiss.
"""

from __future__ import annotations

import argparse
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tests.sweep.coverage import report
from tests.sweep.crew import Crew
from tests.sweep.judge import EMITTERS
from tests.sweep.kit import FAMILIES
from tests.sweep.results import Results, amiss, failures, summary
from tests.sweep.workload import Workload, drawn

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(arguments: list[str] | None = None) -> int:
    """Try what is asked for, and say how it fared."""
    options = _options(arguments)
    if options.tries:
        rows = _tried(options)
    else:
        results = Results(options.results, options.device, options.seed)
        _swept(options, results)
        rows = [row for _, row in sorted(results.rows.items())]
    print(f"torch {torch.__version__}, {options.device}, seed {options.seed}: ", end="")
    print("\n".join(summary(rows)))
    wrong = list(failures(rows, options.device))
    print("\n".join(["", *wrong, ""] if wrong else [""]))
    if not options.tries:
        print("\n".join(report(rows, options.device)))
    return int(bool(wrong))


def _swept(options: argparse.Namespace, results: Results) -> None:
    names = [n for n in FAMILIES if any(fnmatchcase(n, g) for g in options.families.split(","))]
    began = time.monotonic()
    new: list[dict[str, Any]] = []

    def work() -> Iterator[tuple[int, Workload]]:
        for number in range(options.count):
            workload = drawn(options.seed, number, options.device, names)
            if results.rows.get(number, {}).get("workload") != str(workload):
                yield number, workload

    def found(number: int, workload: Workload, answer: dict[str, Any]) -> None:
        results.add(number, workload, answer)
        new.append(results.rows[number])
        _progress(time.monotonic() - began, options.seconds, new, str(workload))

    if options.seconds > 0:
        _crew(options, work(), found, began + options.seconds)
        if sys.stderr.isatty():
            print(file=sys.stderr)


def _tried(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Try workloads that are given as text; nothing is kept."""
    rows: list[dict[str, Any]] = []

    def found(_: int, workload: Workload, answer: dict[str, Any]) -> None:
        rows.append({"workload": str(workload), **answer})
        ways = ", ".join(f"{way}: {said}" for way, said in answer["ways"].items())
        print(f"{workload}\n  stock: {answer['stock']}; {ways}", flush=True)

    _crew(options, iter(enumerate(options.tries)), found, float("inf"))
    return rows


def _crew(options: argparse.Namespace, work: Any, found: Any, until: float) -> None:
    gpus = torch.cuda.device_count() if options.device == "cuda" else 0
    ways = options.way or list(EMITTERS[:2])
    crew = Crew(options.device, ways, work, until, options.grace, options.timeout, found)
    crew.run(max(options.jobs, gpus), gpus)


def _progress(seconds: float, total: float, rows: list[dict[str, Any]], latest: str) -> None:
    bar = "#" * min(30, int(30 * seconds / total))
    bad = sum(bool(amiss(row)) for row in rows)
    counts = f"{seconds:.0f} of {total:.0f} s, {len(rows)} workloads, {bad} amiss"
    end = "" if sys.stderr.isatty() else "\n"
    sys.stderr.write(f"\r[{bar:30}] {counts}  {latest:60.60}{end}")
    sys.stderr.flush()


def _workload(text: str) -> Workload:
    try:
        return Workload.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sweep", description=(__doc__ or "").partition("\n")[0]
    )
    there = "cuda" if torch.cuda.is_available() else "cpu"
    add = parser.add_argument
    add("--device", choices=("cuda", "cpu"), default=there, help=f"where ({there})")
    add("--seconds", type=float, default=240, help="begin nothing new after this time (240)")
    add("--grace", type=float, default=60, help="how long what was begun may take then (60)")
    add("--timeout", type=float, default=300, help="how long one workload may take (300)")
    add("--seed", type=int, default=0, help="of what is drawn (0)")
    add(
        "--count",
        type=int,
        default=1 << 40,
        help="end after so many workloads, what the file has among them",
    )
    add("--families", default="*", metavar="GLOB,...", help="only such families (*)")
    add("--way", action="append", choices=EMITTERS, help="may be repeated (python and cpp)")
    add("--jobs", type=int, default=1, help="worker processes, at least one a GPU (1)")
    add("--results", type=Path, default=Path("build/sweep.jsonl"), help="(build/sweep.jsonl)")
    add(
        "--try",
        dest="tries",
        action="append",
        type=_workload,
        metavar="WORKLOAD",
        help="try this one, such as 'softmax columns=1025 rows=4096 bfloat16 backward'",
    )
    options = parser.parse_args(arguments)
    if options.device == "cuda" and there == "cpu":
        parser.error("there is no GPU: --device cpu")
    return options


if __name__ == "__main__":
    sys.exit(main())
