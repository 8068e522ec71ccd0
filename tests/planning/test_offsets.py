"""Offsets: no overlap whatever the intervals, the optimum where it can be known."""

from __future__ import annotations

import itertools
import os
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
from wrapper_ir.planning.offsets.intervals import Problem
from wrapper_ir.planning.offsets.search import Outcome, Search

TRACES = sorted((Path(__file__).parent / "traces").glob("*.csv"))

#: Where MiniMalloc's instances lie, which are not ours to copy.
_HERE = Path(__file__).parents[3] / "shared" / "data" / "minimalloc"
MINIMALLOC = sorted(Path(os.environ.get("MINIMALLOC_BENCHMARKS", _HERE)).glob("*.csv"))

many = settings(max_examples=150, deadline=None)


@st.composite
def intervals(draw: st.DrawFn, most: int = 40, times: int = 30) -> list[Interval]:
    size = st.one_of(st.integers(0, 8), st.integers(0, 5000))
    one = st.tuples(st.integers(0, times), st.integers(0, times), size)
    return [(min(a, b), max(a, b), s) for a, b, s in draw(st.lists(one, max_size=most))]


@many
@given(intervals(), st.sampled_from([1, 2, 16, 64]))
def test_no_overlap_and_nothing_outside(given: list[Interval], alignment: int) -> None:
    plan = assign_offsets(given, alignment, nodes=2000)
    check_offsets(given, plan.offsets, alignment=alignment, height=plan.height)
    assert plan.height >= plan.lower_bound
    assert len(plan.offsets) == len(given)
    times = {lower for lower, _, _ in given}
    alive = (sum(s for a, b, s in given if a <= t < b) for t in times)
    assert plan.lower_bound >= max(alive, default=0)


def is_possible(given: list[Interval], height: int) -> bool:
    """Whether a plan of at most ``height`` exists, by exhaustion.

    Intervals are dropped onto what is there in each order; of one set of placed intervals, equal
    skylines are the same.
    """
    needed = [(a, b, s) for a, b, s in given if s and b > a]
    times = sorted({a for a, _, _ in needed})
    spans = [[k for k, t in enumerate(times) if a <= t < b] for a, b, _ in needed]
    left = [
        sum(n[2] for n, span in zip(needed, spans, strict=True) if k in span) for k in range(99)
    ]
    states = {(0, (0,) * len(times), tuple(left[: len(times)]))}
    for _ in needed:
        after = set()
        for placed, sky, rest in states:
            for i, span in enumerate(spans):
                if placed >> i & 1:
                    continue
                top = max(sky[k] for k in span) + needed[i][2]
                raised, remains = list(sky), list(rest)
                for k in span:
                    raised[k] = top
                    remains[k] -= needed[i][2]
                if all(a + b <= height for a, b in zip(raised, remains, strict=True)):
                    after.add((placed | 1 << i, tuple(raised), tuple(remains)))
        states = after
    return bool(states)


small = st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(1, 6)).map(
    lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
)


@settings(max_examples=50, deadline=None)
@given(st.lists(small, max_size=12))
def test_up_to_twelve_are_placed_as_well_as_can_be(given: list[Interval]) -> None:
    plan = assign_offsets(given, 1)
    check_offsets(given, plan.offsets, height=plan.height)
    assert plan.height == plan.lower_bound or not is_possible(given, plan.height - 1)


#: Twelve whose best plan needs 13, though no more than 12 are alive at once.
ABOVE = [
    *((8, 9, 4), (3, 6, 3), (6, 10, 5), (4, 6, 3), (2, 4, 6), (3, 5, 2)),
    *((9, 11, 1), (5, 8, 4), (6, 11, 2), (0, 3, 5), (5, 8, 1), (2, 6, 1)),
]


def test_an_optimum_above_the_lower_bound() -> None:
    plan = assign_offsets(ABOVE, 1)
    assert (plan.height, plan.lower_bound) == (13, 12)
    assert not is_possible(ABOVE, 12)


def test_the_search_proves_what_cannot_be_and_finds_what_can() -> None:
    problem = Problem(ABOVE, 1)
    for lowest in (False, True):
        ranking = list(range(len(problem)))
        assert Search(problem, 12, ranking, lowest=lowest).run(10_000) is Outcome.IMPOSSIBLE
        assert Search(problem, 13, ranking, lowest=lowest).run(10_000) is Outcome.FOUND
        assert Search(problem, 13, ranking, lowest=lowest).run(3) is Outcome.LIMIT


@settings(max_examples=100, deadline=None)
@given(st.lists(small, max_size=10), st.booleans(), st.integers(-1, 2))
def test_what_the_search_says_is_true(given: list[Interval], lowest: bool, above: int) -> None:
    problem = Problem(given, 1)
    height = max(problem.lower_bound + above, 0)
    search = Search(problem, height, list(range(len(problem))), lowest=lowest)
    outcome = search.run(1_000_000)
    assert outcome is (Outcome.FOUND if is_possible(given, height) else Outcome.IMPOSSIBLE)
    if outcome is Outcome.FOUND:
        check_offsets(given, search.offsets, height=height)


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


@pytest.mark.skipif(not MINIMALLOC, reason="MiniMalloc's instances are not here")
@pytest.mark.parametrize("path", MINIMALLOC, ids=lambda path: path.stem)
def test_instances_of_minimalloc_fit_their_capacity(path: Path) -> None:
    given = read_intervals(path.read_text(), path.name).intervals
    plan = assign_offsets(given, alignment=1)
    check_offsets(given, plan.offsets, height=plan.height)
    assert plan.height <= 1_048_576


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
