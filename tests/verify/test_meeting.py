"""Ranks that compare their programs through a store: what fits goes on, nobody waits in vain."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.verify.test_ranks import BOTH, GATHER, SUM, program, start, wait
from wrapper_ir.text import print_program
from wrapper_ir.verify.ranks.meeting import Meeting, Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.lines import Program

    #: A program and the groups that it calls.
    Turn = tuple[Program, tuple[str, ...]]

WORLD = ("0",)
MOST = program(start("a", "all_reduce", "%x", '"max"'), wait("a"), end="%a")
TOTAL = program(SUM, wait("a"), end="%a")
OTHER = program(SUM, "  %z = aten::neg(%y) : f32[8] @cpu", wait("a"), end="%a, %z")
LAST = program(GATHER, SUM, wait("a", "b"), end="%a, %b")


class Store:
    """A store of keys, in one process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes, /) -> None:
        self.values[key] = value.encode() if isinstance(value, str) else value

    def get(self, key: str, /) -> bytes:
        return self.values[key]

    def check(self, keys: list[str], /) -> bool:
        return all(key in self.values for key in keys)


class Gone(Store):
    """The store of a rank that died."""

    def check(self, keys: list[str], /) -> bool:
        raise RuntimeError("Connection reset\nat a place")


def met(
    *ranks: Sequence[Turn],
    groups: dict[str, list[int]] | None = None,
    seconds: float = 20,
    late: float = 0,
    store: Store | None = None,
) -> list[list[str]]:
    """Return the kinds of problems of each rank, which goes through its programs."""
    shared = store or Store()
    members = groups or {"0": list(range(len(ranks)))}

    def go(rank: int) -> list[str]:
        mine = {name: each for name, each in members.items() if rank in each}
        meeting = Meeting(rank, shared, dict(mine), seconds, "wait")
        time.sleep(late * rank)
        found = []
        for each, names in ranks[rank]:
            report = meeting.compare(Sheet.of(print_program(each)), names)
            meeting.end(names, "; ".join(map(str, report.problems)))
            found += [problem.kind for problem in report.problems]
        return found

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(go, range(len(ranks))))


def turns(*programs: Program) -> list[Turn]:
    return [(each, WORLD) for each in programs]


@pytest.mark.parametrize(
    "ranks",
    [
        (turns(TOTAL), turns(TOTAL)),
        (turns(TOTAL), turns(OTHER)),  # what is done between calls is a rank's own affair
        (turns(TOTAL, LAST), turns(TOTAL, LAST)),
        # One rank compiles again, and the other does not.
        (turns(TOTAL, OTHER, LAST), turns(TOTAL, LAST)),
        (turns(TOTAL, MOST), turns(OTHER, MOST, TOTAL), turns(TOTAL, MOST)),
    ],
)
def test_ranks_that_fit_go_on(ranks: tuple[list[Turn], ...]) -> None:
    assert met(*ranks, late=0.05) == [[] for _ in ranks]


@pytest.mark.parametrize(
    ("ranks", "kind"),
    [
        ((turns(TOTAL), turns(MOST)), "reduction"),
        ((turns(BOTH), turns(LAST)), "order"),
        ((turns(BOTH), turns(TOTAL)), "missing"),
        ((turns(TOTAL, LAST), turns(TOTAL, MOST)), "op"),
        ((turns(TOTAL), turns(TOTAL), turns(MOST)), "reduction"),
    ],
)
def test_ranks_that_do_not_fit_all_hear_it_before_the_limit(
    ranks: tuple[list[Turn], ...], kind: str
) -> None:
    begun = time.monotonic()
    found = met(*ranks, seconds=100)
    assert time.monotonic() - begun < 50
    assert all(set(each) & {kind, "stopped", "extra"} for each in found), found
    assert any(kind in each or "extra" in each for each in found)


def test_ranks_start_afresh_after_a_disagreement() -> None:
    assert [each[1:] for each in met(turns(TOTAL, LAST), turns(MOST, LAST))] == [[], []]


@pytest.mark.parametrize("second", [[], turns(TOTAL)])
def test_a_rank_that_does_not_come_is_named_at_the_limit(second: list[Turn]) -> None:
    found, _ = met(turns(TOTAL, LAST), second, seconds=0.2)
    assert found[-1] == "late"


def test_who_comes_after_the_limit_hears_why_the_others_stopped() -> None:
    assert met(turns(TOTAL), turns(TOTAL), seconds=0.2, late=0.6) == [["late"], ["stopped"]]


def test_groups_meet_by_themselves() -> None:
    one = program(start("a", "all_reduce", "%x", '"sum"', group="a"), wait("a"), end="%a")
    two = program(start("a", "all_reduce", "%x", '"max"', group="b"), wait("a"), end="%a")
    groups = {"a": [0, 1], "b": [2, 3]}
    ranks = [[(one, ("a",))]] * 2 + [[(two, ("b",))]] * 2
    assert met(*ranks, groups=groups) == [[], [], [], []]
    ranks[3] = [(one.replace(name="other"), ("b",))]
    assert met(*ranks, groups=groups, seconds=0.3)[:2] == [[], []]


def test_a_group_that_overlaps_others_is_compared_alone() -> None:
    """Of a pipeline of two stages, each of two ranks, the first ranks talk to each other, too."""

    def stage(group: str) -> Program:
        inner = start("a", "all_reduce", "%x", '"sum"', group=group)
        across = start("b", "all_reduce", "%y", '"max"', group="across")
        return program(inner, across, wait("a", "b"), end="%a, %b")

    def follower(group: str) -> Program:
        return program(start("a", "all_reduce", "%x", '"sum"', group=group), wait("a"), end="%a")

    groups = {"one": [0, 1], "two": [2, 3], "across": [0, 2]}
    ranks = [
        [(stage("one"), ("across", "one"))],
        [(follower("one"), ("one",))],
        [(stage("two"), ("across", "two"))],
        [(follower("two"), ("two",))],
    ]
    assert met(*ranks, groups=groups) == [[], [], [], []]


def test_programs_of_one_rank_each_that_wait_for_each_other_are_found() -> None:
    a, b = (start(n, "all_reduce", "%x", '"sum"', group=g) for n, g in (("a", "a"), ("b", "b")))
    one = program(a, wait("a"), b, wait("b"), end="%a, %b")
    two = program(b, wait("b"), a, wait("a"), end="%a, %b")
    groups = {"a": [0, 1], "b": [0, 1]}
    found = met([(one, ("a", "b"))], [(two, ("a", "b"))], groups=groups)
    assert all(set(each) <= {"deadlock", "stopped"} and each for each in found), found


def test_what_fits_at_the_last_look_is_still_compared_as_a_whole() -> None:
    a, b = (start(n, "all_reduce", "%x", '"sum"', group=n) for n in "ab")
    store, groups = Store(), {"a": [0, 1], "b": [0, 1]}
    other = Sheet.of(print_program(program(b, wait("b"), a, wait("a"), end="%a, %b")))
    for group in groups:  # rank 1 is there already
        store.set(f"wrapper_ir/{group}/1/0", other.digest)
        store.set(f"wrapper_ir/{group}/1/0/text", other.packed)
    meeting = Meeting(0, store, dict(groups), seconds=0, blocking="wait")
    ours = Sheet.of(print_program(program(a, wait("a"), b, wait("b"), end="%a, %b")))
    assert [each.kind for each in meeting.compare(ours, ("a", "b")).problems] == ["deadlock"]


def test_a_store_that_fails_is_said() -> None:
    assert met(turns(TOTAL), turns(TOTAL), store=Gone()) == [["store"], ["store"]]
    meeting = Meeting(1, Gone(), {"0": [0, 1, 2]}, seconds=0)
    report = meeting.compare(Sheet.of(print_program(TOTAL)), ["0"])
    assert (report.ranks, report.problems[0].where[0].path) == (3, "body[3]")
    assert "rank 1 cannot compare its program" in report.problems[0].message


def test_many_ranks_meet() -> None:
    before = threading.active_count()
    assert met(*[turns(TOTAL, MOST)] * 16) == [[]] * 16
    assert threading.active_count() == before
