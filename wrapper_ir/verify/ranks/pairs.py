"""What one rank sends to another alone: messages, and the rows of an uneven all-to-all."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from wrapper_ir.analysis.collectives import Kind
from wrapper_ir.lines.expr import dim, free_symbols
from wrapper_ir.verify.ranks.groups import shown
from wrapper_ir.verify.ranks.report import RankProblem, Where
from wrapper_ir.verify.ranks.schedule import Post, Tensor, nested_posts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import wrapper_ir.lines as ir
    from wrapper_ir.analysis.collectives import Group
    from wrapper_ir.verify.ranks.schedule import Schedule

Line: TypeAlias = tuple[int, int, int]
"""Sender, receiver and tag."""


class Sent(NamedTuple):
    """One end of a message."""

    rank: int
    post: Post
    tensor: Tensor

    @property
    def where(self) -> Where:
        """The line."""
        return Where(self.rank, *self.post.where)


def ends(rank: int, post: Post, members: Sequence[int]) -> Iterator[tuple[bool, Line, Sent]]:
    """Yield the ends of messages of a call; peers are counted within the group."""
    for each, tensor in zip(post.call.messages, post.tensors, strict=True):
        if 0 <= each.peer < len(members):
            peer = members[each.peer]
            line = (rank, peer, each.tag) if each.is_sent else (peer, rank, each.tag)
            yield each.is_sent, line, Sent(rank, post, tensor)


def is_open(post: Post) -> bool:
    """Return whether a call sends or receives more than its line states."""
    return post.call.facts.kind is Kind.MESSAGES and len(post.call.messages) < len(post.tensors)


def compare_messages(
    group: Group, members: Sequence[int], schedules: Mapping[int, Schedule]
) -> Iterator[tuple[bool, RankProblem]]:
    """Yield what is not shown of the messages in a group, with True; with False what is wrong.

    The messages of one rank to another with one tag arrive in the order in which they were sent.
    """
    sent: defaultdict[Line, list[Sent]] = defaultdict(list)
    received: defaultdict[Line, list[Sent]] = defaultdict(list)
    for rank, schedule in schedules.items():
        nested = {id(post) for post in nested_posts(schedule.nodes)}
        for post in schedule.posts:
            if post.call.group != group or post.call.facts.kind is not Kind.MESSAGES:
                continue
            where = (Where(rank, *post.where),)
            if id(post) in nested or is_open(post):
                text = f"that each message in {shown(group)} is received"
                yield True, RankProblem("message", text, where)
                return
            if any(not 0 <= each.peer < len(members) for each in post.call.messages):
                text = f"{shown(group)} has no such member: there are {len(members)}"
                yield False, RankProblem("message", text, where)
            for is_sent, line, end in ends(rank, post, members):
                (sent if is_sent else received)[line].append(end)
    for line in dict.fromkeys((*sent, *received)):
        problem = _unmatched(line, sent[line], received[line])
        if problem is not None:
            yield False, problem


def _unmatched(line: Line, sent: list[Sent], received: list[Sent]) -> RankProblem | None:
    """Return the first message of a line whose ends do not fit together."""
    sender, receiver, tag = line
    about = f"from rank {sender} to rank {receiver} (tag {tag})"
    for a, b in zip_longest(sent, received):
        if a is None:
            return RankProblem("message", f"nothing is sent {about} that is received", (b.where,))
        if b is None:
            return RankProblem("message", f"nothing receives what is sent {about}", (a.where,))
        sizes = a.tensor.numel, b.tensor.numel
        unequal = sizes[0] != sizes[1] and all(type(size) is int for size in sizes)
        if a.tensor.dtype is not b.tensor.dtype or unequal:
            text = f"{a.tensor} is sent {about}, {b.tensor} is received"
            return RankProblem("message", text, (a.where, b.where))
    return None


def compare_rows(
    group: Group, members: Sequence[int], posts: Mapping[int, Post], assumed: set[str]
) -> Iterator[tuple[bool, RankProblem]]:
    """Yield what is not shown, with True, of the rows that go to each member; with False, wrong."""
    facts = posts[members[0]].call.facts
    if facts.kind is not Kind.ALL_TO_ALL or facts.protocol:
        return
    for i, giver in enumerate(members):
        for j, taker in enumerate(members):
            given = _rows(posts[giver], 0, j, len(members))
            taken = _rows(posts[taker], 1, i, len(members))
            if given is not None and given == taken:
                assumed.update(free_symbols(given))
                continue
            where = tuple(Where(rank, *posts[rank].where) for rank in dict.fromkeys((giver, taker)))
            if type(given) is int and type(taken) is int:
                text = f"rank {giver} gives {given} elements to rank {taker}, which takes {taken}"
                yield False, RankProblem("splits", text, where)
            else:
                text = f"that rank {taker} takes in {shown(group)} what rank {giver} gives"
                yield True, RankProblem("splits", text, where)
            return


def _rows(post: Post, side: int, peer: int, members: int) -> ir.Dim | None:
    """Return how many elements go to a peer, or come from it; None if nobody knows."""
    mine, tensor = post.call.splits[side], post.tensors[0]
    if mine:
        return dim(mine[peer] * tensor.row) if len(mine) == members else None
    return dim(tensor.numel // members)
