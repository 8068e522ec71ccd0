"""Faults that were reported of Inductor's wrapper layer are refused, each where it is."""

from __future__ import annotations

import re

import pytest

from tests.field.faults import FINDERS, PAGE, Fault, faults, in_words, made
from tests.field.graphs import graph_of
from wrapper_ir.text import parse

FAULTS = faults()

#: Those of aliases, effects, lifetimes, sizes, streams, scopes and ranks that were reported in a
#: year, and those that were tried since.
REPORTED = {
    138519,
    152887,
    154442,
    160281,
    166009,
    169050,
    169118,
    169232,
    172728,
    174729,
    174844,
    175449,
    176310,
    178549,
    178578,
    178579,
    180858,
    183575,
    183611,
    187224,
    187678,
    189454,
    189735,
    190000,
    192000,
    192087,
    192219,
    192510,
    193409,
    193621,
    195327,
    195451,
    196570,
    197408,
    197416,
    197493,
    198031,
    198094,
    198095,
    198101,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.name)
def test_a_fault_is_refused_by_whom_its_file_says(fault: Fault) -> None:
    found = fault.refusals()
    assert found
    assert in_words(found) == fault.refused_by
    assert {(each.line, each.code) for each in found} == fault.marks


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.name)
def test_what_is_said_names_the_buffer_and_the_line_of_the_model(fault: Fault) -> None:
    for each in fault.refusals():
        if each.by == "parse":
            assert each.line.split()[0] in each.message
            continue
        # No line is left of what was removed.
        assert "model.py:" in each.source or fault.name == "write_removed", each.message
        names = re.findall(r"%\w+", each.message)
        others = re.search(r"\bresults?\b|symbol \w+|stream \d|receive from", each.message)
        assert names or others, each.message


def test_reports_all_have_a_program() -> None:
    told = {int(n) for each in FAULTS for n in re.findall(r"\d{5,}", each.issue)}
    assert told == REPORTED
    assert "torchrec 4149" in {each.issue for each in FAULTS}


def test_what_the_graph_says_finds_what_no_program_shows_by_itself() -> None:
    alone = [each for each in FAULTS if "verify" not in each.refused_by.split()]
    by_graph = [e for e in FAULTS if {"contract", "validate", "run"} & set(e.refused_by.split())]
    assert len(by_graph) >= 12
    assert len([each for each in by_graph if each in alone]) >= 12
    for each in by_graph:
        (text,) = each.texts
        assert graph_of(each.name, parse(text)) is not None
    finders = {part.split()[0] for each in FAULTS for part in each.refused_by.split(", ")}
    assert finders == set(FINDERS)


def test_the_page_says_what_is_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert made(page) == page, "python -m tests.field writes it"
    assert f"{len(FAULTS)} programs" in page
