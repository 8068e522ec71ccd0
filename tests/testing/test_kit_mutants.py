"""The conformance kit fails on emitters with a fault: each of many finds its test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import warm
from tests.kit_mutants.mutants import MUTANTS

#: Found by a test that starts processes of its own.
SLOW = ("writes_a_set", "writes_the_folder", "writes_the_process")

RUN = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from tests.kit_mutants.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_there_are_many_mutants_and_each_has_a_name() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 60


def test_the_kit_fails_on_each_mutant() -> None:
    """The tests that the mutants name fail, and for the reason that they are there for."""
    said = _run("--quick", "--why", *(m.name for m in MUTANTS if m.name not in SLOW))
    assert "never_frees: 1 tests fail: memory_is_freed_where_the_program_says" in said
    assert "%a is in use after its end" in said
    assert "autocast is on inside" in said


@pytest.mark.long  # new processes that render the whole corpus, two for each of the mutants
def test_the_kit_fails_on_mutants_whose_text_depends_on_the_process() -> None:
    assert "the text depends on the process" in _run("--quick", "--why", *SLOW)


def _run(*args: str) -> str:
    done = warm.run(RUN, str(Path(__file__).parents[2]), *args, PYTEST_ADDOPTS="")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
