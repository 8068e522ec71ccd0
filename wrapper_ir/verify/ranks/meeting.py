"""Ranks that compare their programs through a store, before they run them.

A rank publishes each program in every group that it calls, numbered there. It may run the program
once each other member of these groups has published one that fits: it may be one that the member
has run already, since ranks do not recompile together. A member that waits with a program that fits
nothing, or that gave up, ends the wait of the others at once; whoever does not come, at the limit.
Nothing here is a collective: ranks read and write keys, and never wait in the store.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from wrapper_ir.text import parse
from wrapper_ir.verify.ranks import compare_schedules, read_schedule
from wrapper_ir.verify.ranks.agreement import compare, compare_group
from wrapper_ir.verify.ranks.deadlock import Blocking
from wrapper_ir.verify.ranks.groups import shown
from wrapper_ir.verify.ranks.report import RankProblem, RanksReport, Where
from wrapper_ir.verify.ranks.schedule import Schedule, by_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


#: Seconds between two looks at the store: the first, and for each member that is missing the most.
_FIRST: Final = 0.001
_MOST: Final = 0.02

_STORE_HINT: Final = (
    "the process that keeps the store, such as rank 0's or torchrun, may have ended"
)


class Store(Protocol):
    """A store of keys that all ranks share, such as ``torch.distributed.TCPStore``."""

    def set(self, key: str, value: str | bytes, /) -> None:
        """Write a value."""

    def get(self, key: str, /) -> bytes:
        """Read a value that is there."""

    def check(self, keys: list[str], /) -> bool:
        """Return whether all of these keys are there."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A program as it is published: its text, compressed."""

    packed: bytes

    @property
    def digest(self) -> bytes:
        """A hash, which tells different programs apart."""
        return hashlib.sha256(self.packed).hexdigest().encode()

    @classmethod
    def of(cls, text: str) -> Sheet:
        """Return the sheet of a program's text."""
        return cls(zlib.compress(text.encode(), 9))

    def read(self) -> Schedule:
        """Return what the program says to other ranks."""
        return read_schedule(parse(zlib.decompress(self.packed).decode()))


@dataclass(slots=True)
class Meeting:
    """One rank's part in comparing programs.

    Attributes:
        rank: The rank.
        store: What the ranks share.
        groups: The ranks of each group that this one is in, in their order there.
        seconds: How long it waits for others.
        blocking: When a collective holds its rank, as in ``verify_ranks``.
    """

    rank: int
    store: Store
    groups: dict[str, Sequence[int]]
    seconds: float
    blocking: Blocking = "start"
    _counts: dict[str, int] = field(default_factory=dict)
    _known: dict[bytes, Schedule] = field(default_factory=dict)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    """Group, rank -> the first of its programs that still counts: none before a disagreement."""

    def compare(self, sheet: Sheet, names: Sequence[str]) -> RanksReport:
        """Compare a program with those of the other members of the groups that it names.

        A report with problems stops the others, unless they go on despite of it.
        """
        digest = sheet.digest
        at = {name: self._counts.get(name, 0) for name in names}
        try:
            for name, number in at.items():
                self._counts[name] = number + 1
                key = _key(name, self.rank, number)
                self.store.set(f"{key}/text", sheet.packed)
                self.store.set(key, digest)
            return _Turn(self, sheet, digest, at).result()
        except RuntimeError as error:  # of whatever class a store's are
            return self._without_store(str(error).partition("\n")[0], sheet, names)

    def _without_store(self, error: str, sheet: Sheet, names: Sequence[str]) -> RanksReport:
        """Return that nothing was compared, and at which call."""
        posts = self.schedule(sheet.digest, sheet).posts
        where = [Where(self.rank, *post.where) for post in posts if post.call.group in names][:1]
        text = f"rank {self.rank} cannot compare its program: the store of all ranks fails: {error}"
        problem = RankProblem("store", text, tuple(where), _STORE_HINT)
        ranks = {rank for name in names for rank in self.groups[name]}
        return RanksReport(len(ranks), 0, (problem,))

    def end(self, names: Sequence[str], reason: str = "") -> None:
        """Tell the others that this rank goes on, or why it does not."""
        for name in names:
            try:
                self.store.set(f"{_key(name, self.rank, self._counts[name] - 1)}/end", reason)
            except RuntimeError:
                return

    def schedule(self, digest: bytes, sheet: Sheet) -> Schedule:
        """Return what a program says, read once."""
        if digest not in self._known:
            self._known[digest] = sheet.read()
        return self._known[digest]


def _key(group: str, rank: int, number: int) -> str:
    return f"wrapper_ir/{group}/{rank}/{number}"


class _Turn:
    """One program of one rank, and those of others that it is compared with."""

    def __init__(
        self, meeting: Meeting, sheet: Sheet, digest: bytes, at: Mapping[str, int]
    ) -> None:
        self._meeting, self._store = meeting, meeting.store
        self._sheet, self._digest, self._at = sheet, digest, at
        #: Group, rank -> digests of what it has published there.
        self._seen: dict[tuple[str, int], list[bytes]] = {}
        #: Group, rank -> the program of it that fits.
        self._fit: dict[tuple[str, int], bytes] = {}
        self._mine: dict[str, list[bytes]] = {}

    def result(self) -> RanksReport:
        """Wait for the others, and return what came of it."""
        limit, pause = time.monotonic() + self._meeting.seconds, _FIRST
        pairs = [(g, r) for g in self._at for r in self._meeting.groups[g]]
        self._fit = {pair: self._digest for pair in pairs if pair[1] == self._meeting.rank}
        while missing := [pair for pair in pairs if pair not in self._fit]:
            problems = tuple(each for pair in missing for each in self._look(*pair))
            if problems:
                return self._report(problems)
            left = [pair for pair in missing if pair not in self._fit]
            if left and time.monotonic() > limit:
                return self._report(tuple(self._late(*pair) for pair in left))
            if left:
                time.sleep(pause)
                pause = min(pause * 2, _MOST * len(left), max(limit - time.monotonic(), _FIRST))
        return self._together()

    def _look(self, group: str, rank: int) -> Iterator[RankProblem]:
        """Look at what a rank has published since; yield why waiting for it is in vain."""
        seen = self._seen.setdefault((group, rank), [])
        first, start = len(seen), self._meeting.starts.get((group, rank), 0)
        end: str | None = None
        while True:
            if seen and (end := self._end(group, rank, start + len(seen) - 1)):
                yield RankProblem("stopped", f"rank {rank} stopped in {shown(group)}: {end}")
                return
            if not self._store.check([key := _key(group, rank, start + len(seen))]):
                break
            seen.append(self._store.get(key))
        # The same program first: most ranks have it.
        for digest in sorted(seen[first:], key=lambda each: each != self._digest):
            if not self._differs(group, rank, self._digest, digest):
                self._fit[group, rank] = digest
                return
        mine = self._published(group)
        is_stuck = seen and end is None
        if is_stuck and all(self._differs(group, rank, each, seen[-1]) for each in mine):
            yield from self._differs(group, rank, self._digest, seen[-1])

    def _end(self, group: str, rank: int, number: int) -> str | None:
        """Return why a rank stopped at a program of it, "" if it went on, None before that."""
        key = f"{_key(group, rank, number)}/end"
        return self._store.get(key).decode() if self._store.check([key]) else None

    def _published(self, group: str) -> list[bytes]:
        """Return what this rank has published in a group, in order."""
        if group not in self._mine:
            rank, stop = self._meeting.rank, self._at[group] + 1
            start = self._meeting.starts.get((group, rank), 0)
            keys = [_key(group, rank, number) for number in range(start, stop)]
            self._mine[group] = list(map(self._store.get, keys))
        return self._mine[group]

    def _differs(self, group: str, rank: int, ours: bytes, theirs: bytes) -> list[RankProblem]:
        """Return how a rank's program is unlike one of ours in a group."""
        if ours == theirs:
            return []
        me = self._meeting.rank
        pair = {me: self._read(group, me, ours), rank: self._read(group, rank, theirs)}
        calls = by_group(dict(sorted(pair.items())), group)
        return [each for is_open, each in compare(group, calls, set()) if not is_open]

    def _read(self, group: str, rank: int, digest: bytes) -> Schedule:
        sheet = self._sheet
        if digest != self._digest:
            is_mine = rank == self._meeting.rank
            of = self._published(group) if is_mine else self._seen[group, rank]
            number = self._meeting.starts.get((group, rank), 0) + of.index(digest)
            sheet = Sheet(self._store.get(f"{_key(group, rank, number)}/text"))
        return self._meeting.schedule(digest, sheet)

    def _late(self, group: str, rank: int) -> RankProblem:
        """Return that a rank did not come, and how what it did last is unlike ours."""
        mine = self._read(group, self._meeting.rank, self._digest)
        posts = (post for post in mine.posts if post.call.group == group)
        where = [Where(self._meeting.rank, *post.where) for post in posts][:1]
        seconds = f"within {self._meeting.seconds:g} seconds"
        seen = self._seen.get((group, rank))
        if not seen:
            text = f"rank {rank} has come to no program that calls {shown(group)} {seconds}"
            return RankProblem("late", text, tuple(where))
        text = f"rank {rank} has come to no program in {shown(group)} that fits {seconds}"
        last = self._differs(group, rank, self._digest, seen[-1])
        return RankProblem("late", text, last[0].where if last else tuple(where))

    def _together(self) -> RanksReport:
        """Compare what all members do, now that each fits this rank."""
        by_rank: dict[int, set[bytes]] = {}
        for (_, rank), digest in self._fit.items():
            by_rank.setdefault(rank, set()).add(digest)
        read = {(g, r): self._read(g, r, digest) for (g, r), digest in self._fit.items()}
        if any(len(each) > 1 for each in by_rank.values()):
            return self._by_group(read)
        whole = {rank: schedule for (_, rank), schedule in read.items()}
        called = {(r, post.call.group) for r, each in whole.items() for post in each.posts}
        if any(g not in self._at or r not in self._meeting.groups[str(g)] for r, g in called):
            return self._by_group(read)  # others are in groups that this rank is not in
        every = [whole.get(rank, Schedule()) for rank in range(max(whole) + 1)]
        groups = {name: self._meeting.groups[name] for name in self._at}
        report = compare_schedules(every, groups, self._meeting.blocking)
        return report if report.ok else self._report(report.problems)

    def _start_afresh(self) -> None:
        """Forget all that was published up to a disagreement."""
        starts = self._meeting.starts
        for (group, rank), seen in self._seen.items():
            starts[group, rank] = starts.get((group, rank), 0) + len(seen)
        for group, number in self._at.items():
            starts[group, self._meeting.rank] = number + 1

    def _by_group(self, read: Mapping[tuple[str, int], Schedule]) -> RanksReport:
        found: list[RankProblem] = []
        for group in self._at:
            members = self._meeting.groups[group]
            among = {rank: read[group, rank] for rank in members}
            every = compare_group(group, members, among, set())
            found += [each for is_open, each in every if not is_open]
        return self._report(tuple(found))

    def _report(self, problems: tuple[RankProblem, ...]) -> RanksReport:
        ranks = {rank for group in self._at for rank in self._meeting.groups[group]}
        count = len(self._read(next(iter(self._at)), self._meeting.rank, self._digest).posts)
        if problems:
            self._start_afresh()
        return RanksReport(len(ranks), count, problems)
