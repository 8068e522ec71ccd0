"""Offsets: no overlap whatever the intervals, the lower bound for recorded graphs."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper_ir.errors import OptionValueError
from wrapper_ir.planning import (
    Interval,
    IntervalError,
    OffsetPlan,
    PlanError,
    assign_offsets,
    check_offsets,
    read_intervals,
)

TRACES = sorted((Path(__file__).parent / "traces").glob("*.csv"))

many = settings(max_examples=150, deadline=None)


@st.composite
def intervals(draw: st.DrawFn, most: int = 40, times: int = 30) -> list[Interval]:
    size = st.one_of(st.integers(0, 8), st.integers(0, 5000))
    one = st.tuples(st.integers(0, times), st.integers(0, times), size)
    return [(min(a, b), max(a, b), s) for a, b, s in draw(st.lists(one, max_size=most))]


@many
@given(intervals(), st.sampled_from([1, 2, 16, 64]))
def test_no_overlap_and_nothing_outside(given: list[Interval], alignment: int) -> None:
    plan = assign_offsets(given, alignment)
    check_offsets(given, plan.offsets, alignment=alignment, height=plan.height)
    assert plan.height >= plan.lower_bound
    assert len(plan.offsets) == len(given)
    times = {lower for lower, _, _ in given}
    alive = (sum(s for a, b, s in given if a <= t < b) for t in times)
    assert plan.lower_bound >= max(alive, default=0)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_recorded_graph_is_planned_at_the_lower_bound(path: Path) -> None:
    given = read_intervals(path.read_text(), path.name).intervals
    plan = assign_offsets(given)
    check_offsets(given, plan.offsets, alignment=64, height=plan.height)
    assert plan.height == plan.lower_bound
    assert plan.ratio == 1.0


def test_there_are_traces_with_and_without_externs() -> None:
    assert len(TRACES) == 30
    assert sum(path.stem.endswith(".all") for path in TRACES) == 15


def test_a_missed_gap_in_front_is_found() -> None:
    # The room below what lies at 64 is free when the third comes, and has just its size.
    given = [(0, 2, 64), (0, 4, 128), (2, 4, 64)]
    plan = assign_offsets(given)
    assert plan.height == 192


def test_the_same_intervals_get_the_same_plan_in_any_process() -> None:
    path = TRACES[0].with_name("vit_dyn.inf.csv")
    code = (
        "import sys; from wrapper_ir.planning import *;"
        f"print(assign_offsets(read_intervals(open({str(path)!r}).read()).intervals).offsets)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    here = assign_offsets(read_intervals(path.read_text()).intervals).offsets
    assert runs == {f"{here}\n"}


def test_nothing_to_place() -> None:
    assert assign_offsets([]) == OffsetPlan((), 0, 0, "sweep from the peak")
    empty = assign_offsets([(0, 0, 64), (3, 9, 0)])
    assert (empty.offsets, empty.height, empty.ratio) == ((0, 0), 0, 1.0)


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    plan = assign_offsets([(0, 1, 1), (0, 1, 65)], 64)
    assert sorted(plan.offsets) in ([0, 64], [0, 128])
    assert plan.height == plan.lower_bound == 192


@pytest.mark.parametrize("bad", [(3, 2, 1), (0, 1, -1)])
def test_intervals_that_make_no_sense_are_refused(bad: Interval) -> None:
    with pytest.raises(IntervalError, match="interval 1 is"):
        assign_offsets([(0, 1, 1), bad])
    with pytest.raises(OptionValueError, match="alignment"):
        assign_offsets([], 0)


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ([0, 32], "are taken: interval 0 has 0 to 64"),
        ([0, 96], "not within the 128"),
        ([0, -32], "not within the 128"),
        ([0, 65], "not a multiple of 32"),
        ([0], "1 offsets for 2 intervals"),
    ],
)
def test_the_checker_finds_what_is_wrong(offsets: list[int], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        check_offsets([(0, 2, 64), (1, 3, 64)], offsets, alignment=32, height=128)


@many
@given(intervals(most=12, times=8), st.lists(st.integers(0, 9000), min_size=12, max_size=12))
def test_the_checker_agrees_with_comparing_all_pairs(
    given: list[Interval], drawn: list[int]
) -> None:
    offsets = drawn[: len(given)]
    pairs = itertools.combinations(zip(given, offsets, strict=True), 2)
    collide = any(
        max(a[0], b[0]) < min(a[1], b[1]) and max(p, q) < min(p + a[2], q + b[2])
        for (a, p), (b, q) in pairs
    )
    try:
        check_offsets(given, offsets, height=20_000)
    except PlanError:
        assert collide
    else:
        assert not collide
