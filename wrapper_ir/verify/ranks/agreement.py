"""Comparison of what the ranks of a group call, in the order of the group.

The members of a group call its collectives in one order, and say the same in each. Every rank is
compared with what most of them do. Branches and loops that look alike are taken as passed alike,
which is not shown; where they look different, nothing after them is.
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.verify.ranks.groups import shown
from wrapper_ir.verify.ranks.pairs import compare_messages, compare_rows
from wrapper_ir.verify.ranks.report import RankProblem, Where, named_ranks
from wrapper_ir.verify.ranks.schedule import Heard, Key, Nested, Post, by_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import wrapper_ir.lines as ir
    from wrapper_ir.analysis.collectives import Group
    from wrapper_ir.verify.ranks.schedule import Schedule

Calls: TypeAlias = tuple[Heard, ...]

#: How many calls around the first difference are looked at, to say what is missing or added.
_WINDOW: Final = 256

_PARTS: Final = ("op", "dtype", "size", "reduction", "root", "place")

#: The parts of a key, in words.
_WORDS: Final = dict(zip(Key._fields, _PARTS, strict=True))


def compare_group(
    group: Group, members: Sequence[int], among: Mapping[int, Schedule], assumed: set[str]
) -> Iterator[tuple[bool, RankProblem]]:
    """Compare what all members of a group say in it, as :func:`compare` does, and each to each."""
    calls, clean = by_group(among, group), True
    for is_open, problem in compare(group, calls, assumed):
        clean &= is_open
        yield is_open, problem
    if clean:
        for row in zip(*calls.values(), strict=False):
            posts = {r: e.node for r, e in zip(calls, row, strict=True) if isinstance(e.node, Post)}
            if len(posts) == len(members):
                yield from compare_rows(group, members, posts, assumed)
    yield from compare_messages(group, members, among)


def compare(
    group: Group, calls: Mapping[int, Calls], assumed: set[str]
) -> Iterator[tuple[bool, RankProblem]]:
    """Yield what is not shown, with True, and what is wrong, with False.

    Args:
        group: The group.
        calls: What the group hears of each member.
        assumed: Takes the symbols in sizes that are taken to be the same on all ranks.
    """
    usual = _usual(calls)
    like = [rank for rank, each in calls.items() if _keys(each) == _keys(calls[usual])]
    seen: dict[tuple[str, str], RankProblem] = {}
    for rank, each in calls.items():
        if rank == usual:
            continue
        pair = _Pair(group, (usual, calls[usual]), (rank, each), named_ranks(like), assumed)
        for is_open, found in pair.differences():
            same = seen.setdefault((found.kind, found.message), found)
            if same is found:
                yield is_open, found


def _keys(calls: Calls) -> tuple[Key | Nested, ...]:
    return tuple(each.key for each in calls)


def _usual(calls: Mapping[int, Calls]) -> int:
    """Return the first of the ranks that do what most do."""
    count = Counter(_keys(each) for each in calls.values())
    most = max(count.values())
    return next(rank for rank, each in calls.items() if count[_keys(each)] == most)


class _Pair(NamedTuple):
    """A comparison of one rank with what most ranks do."""

    group: Group
    one: tuple[int, Calls]
    other: tuple[int, Calls]
    most: str
    assumed: set[str]

    def differences(self) -> Iterator[tuple[bool, RankProblem]]:
        """Yield what is not shown up to the first difference, and that: True and False."""
        ours, theirs = self.one[1], self.other[1]
        for at, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if isinstance(a.key, Nested) or isinstance(b.key, Nested):
                kind = "loop" if isinstance(a.key, Nested) and a.key.is_loop else "branch"
                alike = a.key == b.key
                what = "go round alike often" if kind == "loop" else "take the same branch"
                text = f"that all ranks {what if alike else 'call the same'} in {shown(self.group)}"
                yield True, self._problem(kind, text, a, b)
                if not alike:
                    return
                continue
            unlike = _unlike(a.key, b.key)
            if unlike is None:
                text = f"that sizes are equal in {shown(self.group)}"
                yield True, self._problem("size", text, a, b)
            elif unlike:
                yield False, self._first(at, unlike)
                return
            for size in a.key.sizes:
                self.assumed.update(free_symbols(size))
        if len(ours) != len(theirs):
            yield False, self._first(min(len(ours), len(theirs)), "")
        else:
            yield from self._order()

    def _first(self, at: int, unlike: str) -> RankProblem:
        """Return the first difference: a call that is missing, added or unlike, or the order."""
        ours, theirs = (each[1][at : at + _WINDOW] for each in (self.one, self.other))
        if Counter(_keys(ours)) == Counter(_keys(theirs)):
            return self._problem("order", self._in_order(), ours[0], theirs[0])
        tag, i, j = _edit(ours, theirs)
        a, b = (side[n] if n < len(side) else None for side, n in ((ours, i), (theirs, j)))
        rank, most = self.other[0], f"in {shown(self.group)}, unlike {self.most}"
        if tag == "insert":
            return self._problem("extra", f"rank {rank} has one call more {most}", a, b)
        if tag == "delete":
            return self._problem("missing", f"rank {rank} lacks a call {most}", a, b)
        if a and b and isinstance(a.key, Key) and isinstance(b.key, Key):
            unlike = _unlike(a.key, b.key) or unlike
        text = f"rank {rank} calls something with another {_WORDS.get(unlike, 'form')} {most}"
        return self._problem(_WORDS.get(unlike, "op"), text, a, b)

    def _order(self) -> Iterator[tuple[bool, RankProblem]]:
        """Yield that calls that look alike send the same tensors in another order."""
        ours, theirs = ([each.values for each in calls] for _, calls in (self.one, self.other))
        if ours != theirs and Counter(ours) == Counter(theirs):
            at = next(n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            text = self._in_order() + ": tensors are mixed up"
            yield False, self._problem("order", text, self.one[1][at], self.other[1][at])

    def _in_order(self) -> str:
        return f"ranks call the same in {shown(self.group)}, but in another order"

    def _problem(self, kind: str, text: str, a: Heard | None, b: Heard | None) -> RankProblem:
        where = [
            Where(rank, *heard.node.where) if heard else Where(rank)
            for rank, heard in ((self.one[0], a), (self.other[0], b))
        ]
        return RankProblem(kind, text, tuple(where))


def _unlike(a: Key, b: Key) -> str | None:
    """Return the first part that differs, an empty string if none does, None if nobody knows."""
    for part, x, y in zip(Key._fields, a, b, strict=True):
        if x != y:
            is_open = part in ("sizes", "places") and _may_be_equal(x, y)
            return None if is_open else part
    return ""


def _may_be_equal(ours: Sequence[ir.Dim], theirs: Sequence[ir.Dim]) -> bool:
    """Return whether sizes may be equal for all that is known: symbols have any value."""
    return len(ours) == len(theirs) and all(
        a == b or not (type(a) is int and type(b) is int) for a, b in zip(ours, theirs, strict=True)
    )


def _edit(ours: Calls, theirs: Calls) -> tuple[str, int, int]:
    """Return the first change that makes one order of calls the other, and where it is in both.

    Among calls that look alike, those that send the same are the same.
    """
    if ours and theirs and _keys(ours[1:]) == _keys(theirs[1:]):
        return "replace", 0, 0
    fine = [[(e.key, e.values) for e in side] for side in (ours, theirs)]
    if set(fine[0]) & set(fine[1]):
        for tag, i, i2, j, j2 in SequenceMatcher(
            a=fine[0], b=fine[1], autojunk=False
        ).get_opcodes():
            if tag != "equal" and _keys(ours[i:i2]) != _keys(theirs[j:j2]):
                return tag, i, j
    a, b = _keys(ours), _keys(theirs)
    for tag, i, _, j, _ in SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes():
        if tag != "equal":
            return tag, i, j
    return "replace", 0, 0
