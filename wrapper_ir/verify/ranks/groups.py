"""Which ranks are in which process group.

A program names its groups, and does not say who else is in them. A caller who says so names all
groups. Otherwise a group has all ranks; or those that use it, if calls state that it has so many.

A name may stand for several groups, of which a rank is in one at most: the rows of a mesh, say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from wrapper_ir.errors import WrapperIRError, did_you_mean
from wrapper_ir.verify.ranks.report import RankProblem, Where, named_ranks
from wrapper_ir.verify.ranks.schedule import Nest, Post

if TYPE_CHECKING:
    from wrapper_ir.analysis.collectives import Group
    from wrapper_ir.verify.ranks.schedule import Node, Schedule

Given: TypeAlias = Mapping[str, Sequence[int] | Sequence[Sequence[int]]]
"""The ranks of each group in their order in it, as the caller says; lists of several groups."""


class GroupsError(WrapperIRError):
    """The ranks of process groups are not given as they should be. Field: ``reason``."""

    code = "WIR1132"
    template = "groups: {reason}"
    default_hint = (
        "give all groups that the programs name, each with its ranks in order: "
        "{{'0': [0, 1, 2, 3], 'tp': [[0, 1], [2, 3]]}}"
    )


def checked(groups: object, ranks: int) -> dict[str, tuple[tuple[int, ...], ...]] | None:
    """Return the groups that a caller gives: for each name, the ranks of those that have it.

    Raises:
        GroupsError: It is no mapping from names to ranks that exist, or lists one twice.
    """
    if groups is None:
        return None
    if not isinstance(groups, Mapping):
        raise GroupsError(reason=f"a {type(groups).__name__} maps no names to ranks")
    found = {}
    for name, given in groups.items():
        if not isinstance(name, str):
            raise GroupsError(reason=f"{name!r} is not the name of a group")
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise GroupsError(reason=f"{name!r} has {given!r}, which is not a list of ranks")
        members = tuple(given)
        is_nested = bool(members) and all(isinstance(each, (list, tuple)) for each in members)
        found[name] = tuple(map(tuple, members)) if is_nested else (members,)
        every = [rank for group in found[name] for rank in group]
        strays = [n for n in every if type(n) is not int or not 0 <= n < ranks]
        if strays:
            raise GroupsError(reason=f"{name!r} has rank {strays[0]!r}; there are {ranks} programs")
        if not all(found[name]) or len(set(every)) < len(every):
            why = "a rank twice" if all(found[name]) else "no ranks"
            raise GroupsError(reason=f"{name!r} has {why}")
    return found


class _Names:
    """What groups are called whose name stands for several."""

    def __init__(self, given: Mapping[str, tuple[tuple[int, ...], ...]]) -> None:
        self._own = {
            (name, rank): f"{name} of {named_ranks(group)}"
            for name, groups in given.items()
            for group in groups
            for rank in group
            if len(groups) > 1
        }
        self.members = {
            self._own.get((name, group[0]), name): group
            for name, groups in given.items()
            for group in groups
        }

    def of(self, group: Group, rank: int) -> Group:
        """Return what a rank's group is called."""
        return self._own.get((group, rank), group) if isinstance(group, str) else group

    def schedule(self, schedule: Schedule, rank: int) -> Schedule:
        """Return what a rank says, with these names."""
        if not self._own:
            return schedule
        known = {id(post): self._post(post, rank) for post in schedule.posts}
        nodes = tuple(self._node(node, known) for node in schedule.nodes)
        return replace(schedule, nodes=nodes, posts=[known[id(each)] for each in schedule.posts])

    def _post(self, post: Post, rank: int) -> Post:
        return replace(post, call=replace(post.call, group=self.of(post.call.group, rank)))

    def _node(self, node: Node, known: Mapping[int, Post]) -> Node:
        if isinstance(node, Post):
            return known[id(node)]
        if not isinstance(node, Nest):
            return node
        inner = tuple(tuple(self._node(each, known) for each in part) for part in node.parts)
        return replace(node, parts=inner)


class Groups:
    """The members of each group, and what is wrong about who uses it."""

    def __init__(self, schedules: Sequence[Schedule], given: object = None) -> None:
        self.count: int = len(schedules)
        known = checked(given, self.count)
        self._names = _Names(known or {})
        self._given = None if known is None else self._names.members
        self.schedules: list[Schedule] = [
            self._names.schedule(each, n) for n, each in enumerate(schedules)
        ]
        """What ranks say, in which each group has a name of its own."""
        self.problems: list[RankProblem] = []
        self._members: dict[Group, tuple[int, ...]] = {}
        users: dict[Group, dict[int, list[Post]]] = {}
        for rank, schedule in enumerate(self.schedules):
            for post in schedule.posts:
                users.setdefault(post.call.group, {}).setdefault(rank, []).append(post)
        for group, posts in users.items():
            self._members[group] = self._settle(group, posts)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._members)

    def of(self, group: Group, rank: int) -> Group:
        """Return the name of a group, as a rank's program calls it, that no other group has."""
        return self._names.of(group, rank)

    def members(self, group: Group) -> tuple[int, ...]:
        """Return the ranks of a group, in their order in it."""
        return self._members[group]

    def _settle(self, group: Group, posts: Mapping[int, list[Post]]) -> tuple[int, ...]:
        """Return the members of a group, and note who uses it without being one."""
        first = [Where(rank, *each[0].where) for rank, each in posts.items()]
        members = self._find(group, posts, first)
        strangers = [place for place in first if place.rank not in members]
        if strangers:
            who = named_ranks(place.rank for place in strangers)
            text = f"{shown(group)} is used by {who}, but has {named_ranks(members)}"
            self._say(text, strangers)
        calls = [(rank, post) for rank, each in posts.items() for post in each]
        sized = [(rank, post) for rank, post in calls if post.call.size is not None]
        for size in sorted({post.call.size or 0 for _, post in sized} - {len(members)}):
            text = f"{shown(group)} has {len(members)} ranks, but a call says {size}"
            wrong = {rank: post for rank, post in reversed(sized) if post.call.size == size}
            self._say(text, [Where(rank, *wrong[rank].where) for rank in sorted(wrong)])
        return members

    def _find(
        self, group: Group, posts: Mapping[int, list[Post]], first: list[Where]
    ) -> tuple[int, ...]:
        if isinstance(group, tuple):
            return group
        if self._given is not None:
            if group not in self._given:
                text = f"nobody said who is in {shown(group)}"
                self._say(text, first, did_you_mean(group, self._given) or "")
            return self._given.get(group, tuple(posts))
        sizes = {post.call.size for each in posts.values() for post in each} - {None}
        if sizes == {len(posts)}:
            return tuple(sorted(posts))
        absent = sorted(set(range(self.count)) - posts.keys())
        if absent:
            text = f"{shown(group)} is used by {named_ranks(posts)}, not by {named_ranks(absent)}"
            self._say(text, first, "if they are not in it, say who is, with groups")
        return tuple(range(self.count))

    def _say(self, text: str, where: list[Where], hint: str = "") -> None:
        self.problems.append(RankProblem("group", text, tuple(where), hint))


def shown(group: Group) -> str:
    """Return a group in words."""
    if isinstance(group, str):
        return f"group {group!r}" if group else "a group without a name"
    return f"the group of {named_ranks(group)}"
