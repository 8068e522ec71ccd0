"""Run the conformance kit on mutants, and say which of its tests fail for each.

``python -m tests.kit_mutants [NAME ...]`` runs the whole kit on some of them, or on all; with
``--quick`` only what each mutant says that it fails.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit_mutants.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Iterable

CASES = Path(__file__).with_name("cases.py")


class _Outcomes:
    """Notes what becomes of each test."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.words: dict[tuple[str, str], list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            _, name, test = report.nodeid.rsplit("::", 2)
            test = test.removeprefix("test_")
            self.found[name.removeprefix("Test_")][report.outcome].add(test)
            crash = getattr(report.longrepr, "reprcrash", None)
            self.words[name.removeprefix("Test_"), test] = str(crash.message if crash else report.longrepr).splitlines()[:1]


def run(nodes: Iterable[str]) -> dict[str, dict[str, set[str]]]:
    """Run tests, and return those of each mutant by outcome."""
    outcomes = _Outcomes()
    options = ("-q", "--no-header", "--tb=no", "-p", "no:cacheprovider")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        pytest.main([*options, *nodes], plugins=[outcomes])
    if not outcomes.found:
        print(said.getvalue())
    words.update(outcomes.words)
    return outcomes.found


words: dict[tuple[str, str], list[str]] = {}
"""The first line of what a test said, by mutant and test."""


def node(mutant: str, test: str = "") -> str:
    return f"{CASES}::Test_{mutant}" + (f"::test_{test}" if test else "")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kit_mutants", description=__doc__)
    parser.add_argument("mutants", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="only the tests that mutants name")
    parser.add_argument("--why", action="store_true", help="show what the tests say")
    given = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not given.mutants or m.name in given.mutants]
    alive = 0
    if given.quick:
        found = run(node(m.name, test) for m in chosen for test in m.killed_by)
    for mutant in chosen:
        outcomes = found[mutant.name] if given.quick else run([node(mutant.name)])[mutant.name]
        failed = sorted(outcomes["failed"])
        missed = sorted(set(mutant.killed_by) - {*failed})
        alive += bool(missed) or not failed
        listed = ", ".join(failed[:3]) + (", ..." if len(failed) > 3 else "")
        print(f"{mutant.name}: {len(failed)} tests fail: {listed or 'none'}")
        if given.why:
            print(*(f"    {word[:200]}" for test in failed for word in words[mutant.name, test]), sep="\n")
        if missed:
            print(f"  NOT KILLED BY {', '.join(missed)}")
    print(f"{len(chosen)} mutants, {alive} of them not killed as they say")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
