"""Faults of wrappers seen in the field are refused, and the table in the documents says by what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import wrapper_ir as wir
from tests.field import ranks, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wrapper_ir import Program

#: Rules about symbols and streams.
NO_BUFFER = ("WIR1054", "WIR1117")

each_file = pytest.mark.parametrize("file", table.FILES, ids=lambda file: file.stem)


@each_file
def test_a_fault_is_found_by_those_who_are_to_find_it(file: Path) -> None:
    assert table.seen(file) == table.told(file).found


@each_file
def test_what_is_said_of_a_fault_names_buffer_line_and_source(file: Path) -> None:
    for who, found in table.findings(file):
        names_a_buffer = "%" in found.message or found.part
        assert names_a_buffer or found.code in NO_BUFFER, (who, found)
        assert found.path or found.part, (who, found)
        assert found.hint
    said = [f"{found.message} {found.source}" for _, found in table.findings(file)]
    # A line that is missing has no source.
    assert any("model.py" in each for each in said) or file.stem == "pytorch_166009"


@pytest.mark.parametrize("made", ranks.FAULTS.values(), ids=lambda made: made.__name__)
def test_faults_of_several_ranks_are_found(made: Callable[[], list[Program]]) -> None:
    (problem,) = wir.verify_ranks(made()).problems
    assert problem.kind == "deadlock"
    assert all(place.path for place in problem.where)


def test_the_table_says_what_is_found() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.made(page) == page


def test_the_contract_and_validation_find_at_least_twelve() -> None:
    finders = Counter(
        any(not by.startswith("verify ") for by in table.seen(file)) for file in table.FILES
    )
    assert finders[True] >= 12
