"""Ranks that wait for each other in a circle, or for one that never comes.

Every rank goes through its program as far as it can. A collective comes to pass when all members
of its group have called it, a message when both ends have. The order in which ranks take turns
does not matter: whoever can go on can still go on later. So one run tells about all runs.

With ``blocking="start"`` a rank stays in a collective until the others have called it. That is how
groups of one device may behave under NCCL, whose kernels may run one after another whatever group
they belong to. With ``"wait"`` it goes on until it waits for the result, as under gloo. Messages
hold a rank only in its wait. Beyond a loop, or a choice of a rank's own, nothing is known: such a
rank may do anything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from wrapper_ir.analysis.collectives import Kind
from wrapper_ir.verify.ranks.groups import shown
from wrapper_ir.verify.ranks.pairs import ends, is_open
from wrapper_ir.verify.ranks.report import RankProblem, Where, named_ranks
from wrapper_ir.verify.ranks.schedule import Nest, Post, Wait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.verify.collectives import Event
    from wrapper_ir.verify.ranks.groups import Groups
    from wrapper_ir.verify.ranks.schedule import Node, Schedule

Blocking: TypeAlias = Literal["start", "wait"]
"""When a collective holds its rank: see the module."""


@dataclass(slots=True, eq=False)
class _Meeting:
    """A collective of a group, or a message: it comes to pass when all have called it."""

    ranks: tuple[int, ...]
    came: set[int] = field(default_factory=set)
    """The positions, among the ranks, of those that have."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that have not."""
        return tuple(rank for at, rank in enumerate(self.ranks) if at not in self.came)


class _Rank:
    """A rank, and how far it has come."""

    def __init__(self, number: int, schedule: Schedule) -> None:
        self.number = number
        self.nodes = schedule.nodes
        self.at = 0
        self.is_posted = False
        self.needs: dict[Event, list[_Meeting]] = {}
        """What each call takes part in."""
        self.said: dict[Event, str] = {}

    @property
    def is_done(self) -> bool:
        return self.at >= len(self.nodes)

    @property
    def node(self) -> Node:
        """The node where it is, until it is done."""
        return self.nodes[self.at]

    @property
    def is_lost(self) -> bool:
        """True if nothing is known of what it does next."""
        if self.is_done:
            return False
        node = self.node
        return isinstance(node, Nest) or (isinstance(node, Post) and is_open(node))


def find_deadlock(
    schedules: Sequence[Schedule], groups: Groups, blocking: Blocking
) -> RankProblem | None:
    """Return who waits for whom if ranks certainly wait forever."""
    run = _Run(schedules, groups, blocking)
    run.go()
    return run.verdict()


class _Run:
    def __init__(self, schedules: Sequence[Schedule], groups: Groups, blocking: Blocking) -> None:
        self._ranks = [_Rank(number, schedule) for number, schedule in enumerate(schedules)]
        self._groups = groups
        self._blocking = blocking
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._meetings: dict[tuple[object, ...], _Meeting] = {}

    def go(self) -> None:
        """Let every rank go as far as it can."""
        moved = True
        while moved:
            moved = False
            for rank in self._ranks:
                moved |= self._advance(rank)

    def _advance(self, rank: _Rank) -> bool:
        moved = False
        while not rank.is_done and not rank.is_lost:
            node = rank.node
            if isinstance(node, Post) and not rank.is_posted:
                self._post(rank, node)
                rank.is_posted = moved = True
            if self._awaited(rank):
                break
            rank.at, rank.is_posted, moved = rank.at + 1, False, True
        return moved

    def _post(self, rank: _Rank, post: Post) -> None:
        group, members = post.call.group, self._groups.members(post.call.group)
        rank.said[post.event] = post.where[1]
        needs = rank.needs.setdefault(post.event, [])
        if post.call.facts.kind is not Kind.MESSAGES:
            needs.append(self._come((group,), members, members.index(rank.number)))
            return
        for is_sent, line, _ in ends(rank.number, post, members):
            needs.append(self._come((group, *line), line[:2], 0 if is_sent else 1))

    def _come(self, channel: tuple[object, ...], ranks: tuple[int, ...], at: int) -> _Meeting:
        """Return the next meeting of a rank on a channel, which it comes to."""
        number = self._counts[channel, at]
        self._counts[channel, at] += 1
        meeting = self._meetings.setdefault((channel, number), _Meeting(ranks))
        meeting.came.add(at)
        return meeting

    def _awaited(self, rank: _Rank) -> list[_Meeting]:
        """Return what holds a rank where it is."""
        node = rank.node
        events: tuple[Event, ...] = ()
        if isinstance(node, Wait):
            events = node.event.waits_for
        elif isinstance(node, Post):
            facts = node.call.facts
            is_held = self._blocking == "start" and facts.kind is not Kind.MESSAGES
            events = (node.event,) if is_held or not facts.in_flight else ()
        return [
            meeting
            for event in events
            for meeting in rank.needs.get(event, ())
            if len(meeting.came) < len(meeting.ranks)
        ]

    def verdict(self) -> RankProblem | None:
        """Return the ranks that nobody can free any more."""
        awaited: dict[int, tuple[int, ...]] = {
            rank.number: tuple(
                dict.fromkeys(who for each in self._awaited(rank) for who in each.missing)
            )
            for rank in self._ranks
            if not rank.is_done and not rank.is_lost
        }
        free = {rank.number for rank in self._ranks if rank.is_lost}
        stuck = dict(awaited)
        while freed := [r for r, each in stuck.items() if free.issuperset(each)]:
            free.update(freed)
            for rank in freed:
                del stuck[rank]
        if not stuck:
            return None
        return self._problem(stuck)

    def _problem(self, stuck: Mapping[int, tuple[int, ...]]) -> RankProblem:
        circle = _circle(stuck)
        where = []
        for number in circle or stuck:
            rank = self._ranks[number]
            node = rank.node
            says = node.where[1]
            if isinstance(node, Wait):
                said = (rank.said[each] for each in node.event.waits_for if each in rank.said)
                says = f"wait for {', '.join(said)}"
            says = f"{says}, needs {named_ranks(stuck[number])}"
            where.append(Where(number, node.where[0], says, node.where[2]))
        ended = sorted({other for each in stuck.values() for other in each} - stuck.keys())
        if circle:
            text = f"{named_ranks(circle)} wait for each other"
        else:
            text = f"{named_ranks(stuck)} wait for {named_ranks(ended)}, at the end already"
        nodes = [self._ranks[number].node for number in circle or stuck]
        used = {node.call.group for node in nodes if isinstance(node, Post)}
        hint = ""
        if len(used) > 1:
            names = " and ".join(shown(group) for group in sorted(used, key=str))
            hint = f"call the collectives of {names} in one order on all ranks"
            if self._blocking == "start":
                hint += ", or, if groups do not hold each other up, compare with blocking='wait'"
        return RankProblem("deadlock", text, tuple(where), hint)


def _circle(stuck: Mapping[int, tuple[int, ...]]) -> list[int]:
    """Return ranks that wait for each other, if some do; else they wait for one that is gone."""
    seen: list[int] = []
    at = next(iter(stuck))
    while at not in seen:
        seen.append(at)
        onward = [other for other in stuck[at] if other in stuck]
        if not onward:
            return []
        at = onward[0]
    return sorted(seen[seen.index(at) :])
