"""The verifier's view of memory: names, the storage behind them, the slices of a pool.

A buffer name is a view; a :class:`Storage` is what ends. Names of one storage share one object, so
ending it ends every alias at once, however many there are: each line costs what it mentions.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.lines import Dim, Layout
from wrapper_ir.verify.choices import Span
from wrapper_ir.verify.state import Frame, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.analysis.proof import Facts

_MOST_SYMBOLIC_PAIRS: Final = 64
"""A slice with a symbolic place is compared with at most this many others, to stay linear."""


class Kind(enum.Enum):
    """Source of a storage."""

    OWNED = "owned"
    INPUT = "an input that the caller keeps"
    CONSTANT = "a constant"
    PARAM = "a parameter of the region"


class End(NamedTuple):
    """End of a storage: the place, and the name under which it went on (empty if it was freed)."""

    place: Place
    taken_by: str = ""


@dataclass(slots=True, eq=False)
class Storage:
    """A piece of memory under its present owner."""

    owner: str
    kind: Kind
    place: Place
    capacity: Dim | None = None
    """Bytes; ``None`` where the owner's layout is missing or unsound."""
    donated: bool = False
    mutable: bool = True
    root: Storage | None = None
    """The borrowed storage that this one goes on with, for donated inputs and parameters."""
    space: PoolSpace | None = None
    """What is cut out of it, for a pool."""
    slot: Slot | None = None
    """The part of a pool that it is, for a slice."""
    end: End | None = None
    written: bool = False
    blank: bool = False
    """Whether the contents are undefined for certain: new, not zeroed, never written to."""
    leaves: bool = False
    kept: bool = False
    """Whether its memory may be kept for the next call."""
    held: bool = False
    """Whether an object may hold it, and look at it whenever it likes."""

    @property
    def first(self) -> Storage:
        """The storage before any reuse."""
        return self.root or self


@dataclass(slots=True, eq=False)
class Buffer:
    """A defined name: the storage that it is a view of, and where it can be seen."""

    name: str
    frame: Frame
    place: Place
    layout: Layout | None
    storages: tuple[Storage, ...]
    """One; more for what may be a view of several arguments; none for a faulty definition."""
    owns: bool = False
    is_certain: bool = True
    """Whether it is known that the storage is these; not for what may be a view."""
    is_global: bool = False
    pending: frozenset[str] = field(default_factory=frozenset)
    """Symbols of the layout that were not bound yet when the buffer came into being."""


@dataclass(slots=True, eq=False)
class Slot:
    """Bytes ``start`` to ``end`` of a pool, and the storage that is there."""

    start: Dim
    end: Dim
    storage: Storage
    pool: Storage
    sample: tuple[int, int] | None = None
    """Both ends for one choice of the symbols, to see quickly that two slots lie apart."""
    spans: tuple[Span, ...] = ()
    """Both ends for each of a few choices that the program allows; empty in regions."""

    @property
    def is_static(self) -> bool:
        """True if both ends are known numbers."""
        return type(self.start) is int and type(self.end) is int

    def span(self, choice: int) -> Span:
        """Both ends for one of the choices, where they are known."""
        if self.is_static:
            return self.start, self.end
        return self.spans[choice] if choice < len(self.spans) else None

    def hand_on(self, heir: Storage | None) -> None:
        """Gives the place to the storage that takes over, or gives it up."""
        if heir is not None:
            self.storage = heir
        elif self.pool.space is not None:
            self.pool.space.remove(self)


class PoolSpace:
    """The slices of one pool that are alive.

    Those with known places are sorted and do not overlap, so a new one is compared with its
    neighbours only.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._static: list[Slot] = []
        self._symbolic: dict[Slot, None] = {}
        self._empty: dict[Slot, None] = {}
        """Slices of no bytes: they overlap with nothing, and end before their pool all the same."""

    def alive(self) -> Iterator[Storage]:
        """The storages of all slices that are alive."""
        for slot in (*self._static, *self._symbolic, *self._empty):
            yield slot.storage

    def overlapping(self, slot: Slot, facts: Facts) -> Slot | None:
        """A slice alive that provably shares bytes with ``slot``."""
        if not slot.is_static:
            others = (*self._symbolic, *self._static)[-_MOST_SYMBOLIC_PAIRS:]
            return next((o for o in others if _overlap(slot, o, facts)), None)
        at = bisect_left(self._starts, slot.start)
        others = (*self._static[max(at - 1, 0) : at + 1], *self._last_symbolic())
        return next((o for o in others if _overlap(slot, o, facts)), None)

    def add(self, slot: Slot) -> None:
        """Notes a slice that begins to live."""
        if not slot.is_static:
            self._symbolic[slot] = None
        elif slot.start == slot.end:
            self._empty[slot] = None
        else:
            at = bisect_left(self._starts, slot.start)
            self._starts.insert(at, slot.start)
            self._static.insert(at, slot)

    def remove(self, slot: Slot) -> None:
        """Notes that a slice ended."""
        self._symbolic.pop(slot, None)
        self._empty.pop(slot, None)
        if slot.is_static:
            at = bisect_left(self._starts, slot.start)
            while at < len(self._static) and self._static[at].start == slot.start:
                if self._static[at] is slot:
                    del self._static[at], self._starts[at]
                    return
                at += 1

    def _last_symbolic(self) -> tuple[Slot, ...]:
        return tuple(self._symbolic)[-_MOST_SYMBOLIC_PAIRS:]


def meeting(a: Slot, b: Slot) -> int | None:
    """The first choice of the symbols for which both share a byte."""
    for choice in range(max(len(a.spans), len(b.spans))):
        one, other = a.span(choice), b.span(choice)
        if one is not None and other is not None and max(one[0], other[0]) < min(one[1], other[1]):
            return choice
    return None


def _overlap(a: Slot, b: Slot, facts: Facts) -> bool:
    """Return whether both provably share a byte, for one choice of the symbols or for all."""
    if a.is_static and b.is_static:
        return bool(a.start < b.end and b.start < a.end)
    if meeting(a, b) is not None:
        return True
    if a.sample is not None and b.sample is not None:
        (start, end), (other_start, other_end) = a.sample, b.sample
        if start >= other_end or other_start >= end:
            return False
    holds_bytes = facts.exceeds(a.end, a.start) and facts.exceeds(b.end, b.start)
    return holds_bytes and facts.exceeds(b.end, a.start) and facts.exceeds(a.end, b.start)
