"""Runs whole architectures through every emitter and compares each with stock Inductor.

    python -m tests.zoo [--models GLOB,...] [--mode MODE] [--emitter NAME] [--jobs N]

Models of ``transformers`` and of torch at toy sizes: results, arguments, gradients, state, strides,
aliases and random state have to be the same to the bit, at each of several calls with fresh inputs;
and each graph that Inductor lowers has to be ours. What stock cannot do either is skipped. The
status is 1 where anything failed.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.zoo.catalogue import chosen
from tests.zoo.check import EMITTERS, MODES, modes_of
from tests.zoo.crew import Task, results
from tests.zoo.report import Findings, section, shown, summary, table, write_section

DOCUMENT = Path(__file__).parents[2] / "docs" / "coverage-models.md"


def main() -> int:
    """Try what is asked for and print the table."""
    options = _options()
    if options.resume and options.json is None:
        sys.exit("--resume needs --json FILE, where the last run left what it found")
    if options.json is not None and not options.resume:
        options.json.unlink(missing_ok=True)
    findings = Findings(options.json)
    console = Console(stderr=True)
    try:
        _run(_tasks(options, findings), options, findings, console)
    except KeyboardInterrupt:
        console.print("interrupted: this is what was found so far")
    outcomes = findings.all()
    Console(width=None if sys.stdout.isatty() else 180).print(shown(outcomes), summary(outcomes))
    if options.write:
        versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
        others = [table(Findings(Path(file)).all(), told) for file, told in options.also]
        write_section(DOCUMENT, section(table(outcomes, versions), *others))
    return int(not outcomes or any(outcome.state == "failed" for outcome in outcomes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.zoo", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--models", default="*", help="globs of names or kinds, with commas (*)")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be repeated (all)")
    parser.add_argument("--emitter", action="append", choices=EMITTERS, help="likewise (all)")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (1)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a model in a mode")
    parser.add_argument("--json", type=Path, metavar="FILE", help="outcomes, a line of JSON each")
    parser.add_argument("--resume", action="store_true", help="leave out what passed in FILE")
    parser.add_argument("--list", action="store_true", help="list models and modes, run nothing")
    parser.add_argument("--write", action="store_true", help="put the table in its page")
    parser.add_argument(
        "--also",
        action="append",
        nargs=2,
        default=[],
        metavar=("FILE", "VERSIONS"),
        help="with --write: outcomes that other versions gave, for a table of their own",
    )
    options = parser.parse_args()
    options.mode = options.mode or list(MODES)
    options.emitter = options.emitter or list(EMITTERS)
    if options.list:
        for architecture in chosen(options.models):
            print(
                f"{architecture.name:24} {architecture.kind:20} {' '.join(modes_of(architecture))}"
            )
        sys.exit(0)
    return options


def _tasks(options: argparse.Namespace, findings: Findings) -> list[Task]:
    """Return what is to be tried: of all models what is common first, the rarer modes after it."""
    tasks = []
    for mode in (mode for mode in MODES if mode in options.mode):
        for architecture in chosen(options.models):
            # A library is C++; what is in it is compared with the other emitters.
            able = ("cpp",) if mode == "export" else EMITTERS
            known = (findings.get(architecture.name, mode, emitter) for emitter in able)
            passed = {outcome.emitter for outcome in known if outcome and outcome.state == "passed"}
            left = tuple(e for e in able if e in options.emitter and e not in passed)
            if left and mode in modes_of(architecture):
                tasks.append(Task(architecture, mode, left))
    return tasks


def _run(
    tasks: list[Task], options: argparse.Namespace, findings: Findings, console: Console
) -> None:
    columns = (
        TextColumn("{task.description:32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=1) as progress:
        bar = progress.add_task("", total=len(tasks))
        for task, outcomes in results(tasks, options.jobs, options.timeout):
            for outcome in outcomes:
                findings.add(outcome)
                if outcome.state != "passed":
                    words = f"{outcome.model} {outcome.mode} {outcome.emitter}: {outcome.why}"
                    console.print(f"{outcome.state} {words}", markup=False, highlight=False)
            name = f"{task.architecture.name} {task.mode}"
            progress.update(bar, advance=1, description=name)


if __name__ == "__main__":
    sys.exit(main())
