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

    from tests.kit_mutants.machine import Mutant

CASES = Path(__file__).with_name("cases.py")


class _Outcomes:
    """Notes what becomes of each test."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.words: dict[tuple[str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            _, name, test = report.nodeid.rsplit("::", 2)
            test = test.removeprefix("test_")
            self.found[name.removeprefix("Test_")][report.outcome].add(test)
            crash = getattr(report.longrepr, "reprcrash", None)
            said = str(crash.message if crash else report.longrepr)
            self.words[name.removeprefix("Test_"), test] = said.partition("\n")[0]


def run(nodes: Iterable[str]) -> dict[str, dict[str, set[str]]]:
    """Run tests, and return those of each mutant by outcome."""
    outcomes = _Outcomes()
    # The library is imported by now, and pytest would rewrite the assertions of editable plugins.
    late = "ignore::pytest.PytestAssertRewriteWarning"
    options = ("-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-W", late)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        pytest.main([*options, *nodes], plugins=[outcomes])
    if not outcomes.found:
        print(said.getvalue())
    words.update(outcomes.words)
    return outcomes.found


words: dict[tuple[str, str], str] = {}
"""The first line of what a test said, by mutant and test."""


def node(mutant: str, test: str = "") -> str:
    return f"{CASES}::Test_{mutant}" + (f"::test_{test}" if test else "")


def quick(mutants: Iterable[Mutant]) -> dict[str, dict[str, set[str]]]:
    """Run what mutants say that they fail, in one go."""
    return run(node(mutant.name, test) for mutant in mutants for test in mutant.killed_by)


def missed(mutant: Mutant, outcomes: dict[str, set[str]]) -> list[str]:
    """The tests that a mutant says that it fails and that did not."""
    return sorted({*mutant.killed_by} - outcomes["failed"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kit_mutants", description=__doc__)
    parser.add_argument("mutants", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="only the tests that mutants name")
    parser.add_argument("--why", action="store_true", help="show what the tests say")
    given = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not given.mutants or m.name in given.mutants]
    found = quick(chosen) if given.quick else {}
    alive = 0
    for mutant in chosen:
        outcomes = found[mutant.name] if found else run([node(mutant.name)])[mutant.name]
        failed, lacking = sorted(outcomes["failed"]), missed(mutant, outcomes)
        alive += bool(lacking)
        listed = ", ".join(failed[:3]) + (", ..." if len(failed) > 3 else "")
        print(f"{mutant.name}: {len(failed)} tests fail: {listed or 'none'}")
        for test in failed if given.why else ():
            print(f"    {words[mutant.name, test][:200]}")
        if lacking:
            print(f"    NOT KILLED BY {', '.join(lacking)}")
    print(f"{len(chosen)} mutants, {alive} of them not killed as they say")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
