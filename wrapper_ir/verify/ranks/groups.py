"""Which ranks are in which process group.

A program names its groups, and does not say who else is in them. A caller who says so names all
groups. Otherwise a group has all ranks; or those that use it, if calls state that it has so many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from wrapper_ir.errors import WrapperIRError, did_you_mean
from wrapper_ir.verify.ranks.report import RankProblem, Where, named_ranks

if TYPE_CHECKING:
    from wrapper_ir.analysis.collectives import Group
    from wrapper_ir.verify.ranks.schedule import Post, Schedule

Given: TypeAlias = Mapping[str, Sequence[int]]
"""The ranks of each group in their order in it, as the caller says."""


class GroupsError(WrapperIRError):
    """The ranks of process groups are not given as they should be. Field: ``reason``."""

    code = "WIR1132"
    template = "groups: {reason}"
    default_hint = (
        "give all groups that the programs name, each with its ranks in order: "
        "{{'0': [0, 1, 2, 3], 'tp': [0, 1]}}"
    )


def checked(groups: object, ranks: int) -> dict[str, tuple[int, ...]] | None:
    """Return the groups that a caller gives.

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
        strays = [n for n in members if type(n) is not int or not 0 <= n < ranks]
        if strays:
            raise GroupsError(reason=f"{name!r} has rank {strays[0]!r}; there are {ranks} programs")
        if not members or len(set(members)) < len(members):
            why = "a rank twice" if members else "no ranks"
            raise GroupsError(reason=f"{name!r} has {why}")
        found[name] = members
    return found


class Groups:
    """The members of each group, and what is wrong about who uses it."""

    def __init__(self, schedules: Sequence[Schedule], given: object = None) -> None:
        self.count = len(schedules)
        self._given = checked(given, self.count)
        self.problems: list[RankProblem] = []
        self._members: dict[Group, tuple[int, ...]] = {}
        users: dict[Group, dict[int, list[Post]]] = {}
        for rank, schedule in enumerate(schedules):
            for post in schedule.posts:
                users.setdefault(post.call.group, {}).setdefault(rank, []).append(post)
        for group, posts in users.items():
            self._members[group] = self._settle(group, posts)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._members)

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
