"""The network between ranks that run in one process: who has called what, and what came to pass.

A collective comes to pass some time after all members of its group have called it, and before a
wait on it returns. Until then what it writes holds the fill pattern, so that reading it shows. What
it only reads is taken when it comes to pass, so that writing it shows. If members do not say the
same, it never comes to pass.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from wrapper_ir.analysis.collectives import Call, Group, Kind
from wrapper_ir.interpreter import memory as mem
from wrapper_ir.interpreter.collectives import results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: Kinds whose members all give tensors of one size.
_ALIKE: Final = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.BROADCAST)


@dataclass(eq=False)
class Given:
    """A tensor that a rank gives, as it was then, and the memory that it is read from later."""

    then: Tensor
    tensor: Tensor
    storages: tuple[mem.Storage, ...]
    is_written: bool
    """The work writes it too."""

    def now(self) -> Tensor:
        """Return its elements: what the memory holds, unless the program has ended it."""
        ended = any(each.whole_end for each in self.storages)
        return self.then if ended or self.is_written else self.tensor.clone()


@dataclass(eq=False)
class Work:
    """A collective, or a batch of messages, that a rank has called."""

    rank: int
    call: Call
    place: str
    """The line, and what it says."""
    given: list[Given]
    splits: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    outs: list[Tensor | None] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """True once all of it came to pass."""
        return all(each.is_done for each in self.meetings)

    def missing(self) -> list[int]:
        """Return the ranks that have not called their part."""
        return sorted({rank for each in self.meetings for rank in each.missing()})

    def form(self) -> tuple[object, ...]:
        """Return what all members have to say alike."""
        facts = self.call.facts
        sizes = [each.then.numel() if facts.kind in _ALIKE else 0 for each in self.given]
        dtypes = [each.then.dtype for each in self.given]
        return facts.kind, facts.protocol, tuple(dtypes), tuple(sizes), self.call.root


@dataclass(eq=False)
class Meeting:
    """Calls that belong together: those of a group, or the two ends of a message."""

    ranks: tuple[int, ...]
    """The members in the order of the group, or the sender and the receiver."""
    is_message: bool
    seats: dict[int, tuple[Work, int]] = field(default_factory=dict)
    """By position among the ranks: the work and, for a message, its position there."""
    is_done: bool = False
    haste: float = 0.0
    """How likely it comes to pass soon; 0 while nobody has drawn it."""

    def missing(self) -> list[int]:
        """Return the ranks that have not called their part."""
        return [rank for seat, rank in enumerate(self.ranks) if seat not in self.seats]

    @property
    def works(self) -> list[Work]:
        """The works in the order of the ranks, when nobody is missing."""
        return [self.seats[seat][0] for seat in range(len(self.ranks))]

    def fits(self) -> bool:
        """Return whether all say the same, when nobody is missing."""
        if self.is_message:
            ends = self.seats[0], self.seats[1]
            sent, received = (work.given[at].then for work, at in ends)
            return (sent.dtype, sent.numel()) == (received.dtype, received.numel())
        first, *others = self.works
        if any(other.form() != first.form() for other in others):
            return False
        root = int(first.call.root or 0)
        return root < len(self.ranks) and (
            first.call.facts.kind is not Kind.ALL_TO_ALL or self._fits_rows()
        )

    def _fits_rows(self) -> bool:
        """Return whether each member of an all-to-all takes the rows that the others give it."""

        def elements(work: Work, side: int, peer: int) -> int:
            then, rows = work.given[0].then, work.splits[side]
            each = math.prod(then.shape[1:])  # a rank without rows may take some
            return rows[peer] * each if rows else then.numel() // len(self.ranks)

        return all(
            elements(giver, 0, j) == elements(taker, 1, i)
            for i, giver in enumerate(self.works)
            for j, taker in enumerate(self.works)
        )

    def come_to_pass(self) -> None:
        """Write what the works make."""
        self.is_done = True
        if self.is_message:
            (sender, sent), (receiver, received) = self.seats[0], self.seats[1]
            _write(receiver.outs[received], sender.given[sent].now())
            return
        given = [[each.now() for each in work.given] for work in self.works]
        splits = [work.splits[0] for work in self.works]
        for member, work in enumerate(self.works):
            root, call = int(work.call.root or 0), work.call
            made = results(call.facts.kind, given, member, call.reduction, root, splits)
            for out, value in zip(work.outs, made, strict=True):
                _write(out, value)


def _write(out: Tensor | None, value: Tensor) -> None:
    if out is not None:
        out.copy_(value.reshape(out.shape))


class Network:
    """All calls of all ranks, and the meetings that they take part in."""

    def __init__(self, members: Callable[[Group], tuple[int, ...]]) -> None:
        self.members = members
        self._counts: Counter[tuple[object, ...]] = Counter()
        self._meetings: dict[tuple[object, ...], Meeting] = {}
        self.ready: list[Meeting] = []
        """What may come to pass."""

    def post(self, work: Work) -> None:
        """Take a call of a rank."""
        for channel, ranks, seat, position in self._parts(work):
            number = self._counts[channel, seat]
            self._counts[channel, seat] += 1
            meeting = Meeting(ranks, is_message=len(channel) > 1)
            meeting = self._meetings.setdefault((channel, number), meeting)
            meeting.seats[seat] = work, position
            work.meetings.append(meeting)
            if not meeting.missing() and meeting.fits():
                self.ready.append(meeting)

    def _parts(self, work: Work) -> Iterator[tuple[tuple[object, ...], tuple[int, ...], int, int]]:
        """Yield where a work takes part: channel, ranks, its seat, the position of a message."""
        group, members = work.call.group, self.members(work.call.group)
        if work.call.facts.kind is not Kind.MESSAGES:
            yield (group,), members, members.index(work.rank), 0
        for position, each in enumerate(work.call.messages):
            peer = members[each.peer]
            ranks = (work.rank, peer) if each.is_sent else (peer, work.rank)
            yield (group, *ranks, each.tag), ranks, 0 if each.is_sent else 1, position


def fill(tensor: Tensor) -> None:
    """Fill the elements of a tensor with the pattern of memory that nothing has written."""
    text = bytearray(mem.pattern.get() * 8)
    one = torch.frombuffer(text, dtype=tensor.dtype, count=1)[0]
    tensor.copy_(one.to(tensor.device).expand_as(tensor))
