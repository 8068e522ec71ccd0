"""Buffers of a kernel call that share memory with one that the call writes.

Such buffers are handed over as one memory and places in it (:class:`KernelForm`). So are buffers
that are written as another dtype than that of the memory they lie in: torch's functionalisation
takes a view that a custom op writes for one in the dtype of its base.

Buffers that provably have no byte in common are left alone, and so are slices of a pool: those that
are alive at once do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.emitters.fx.region import Bound, Storage, extent_of
from wrapper_ir.lines.args import BufferArg
from wrapper_ir.lines.expr import Dim, dim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.lines.args import Arg
    from wrapper_ir.lines.layout import Layout


@dataclass(frozen=True, slots=True)
class Place:
    """Place of an argument in memory.

    Attributes:
        storage: The memory.
        begin: Its first byte, counted from the memory's owner.
        end: The byte behind its last one.
        is_written: Whether the call writes it.
        has_other_dtype: Whether its dtype is not the memory's.
    """

    storage: Storage
    begin: Dim
    end: Dim
    is_written: bool
    has_other_dtype: bool

    @classmethod
    def of(cls, arg: BufferArg, bound: Bound, layout: Layout) -> Place:
        """The place of an argument."""
        begin = dim(layout.offset * layout.dtype.itemsize)
        end = dim(begin + extent_of(layout) * layout.dtype.itemsize)
        storage = bound.storage
        other = layout.dtype is not storage.dtype
        return cls(storage, begin, end, arg.access.writes, other)

    @property
    def at(self) -> Dim:
        """Bytes from the first element of the memory's tensor."""
        return dim(self.begin - self.storage.start)

    def may_meet(self, other: Place) -> bool:
        """Return whether the two may have a byte in common."""
        mine, theirs = self.storage, other.storage
        if mine.node is not theirs.node or mine.start != theirs.start:
            return False
        return not (_is_at_most(self.end, other.begin) or _is_at_most(other.end, self.begin))


def places(
    args: Sequence[Arg], bound: Mapping[str, Bound], layouts: Mapping[str, Layout]
) -> dict[int, Place]:
    """The places of the arguments, by position, that are to be handed over as places in memory."""
    every = {
        position: Place.of(arg, bound[arg.buffer], layouts[arg.buffer])
        for position, arg in enumerate(args)
        if isinstance(arg, BufferArg)
    }
    memories = {
        place.storage.node
        for position, place in every.items()
        if place.is_written and (place.has_other_dtype or _meets_another(place, position, every))
    }
    return {n: place for n, place in every.items() if place.storage.node in memories}


def _meets_another(place: Place, position: int, every: Mapping[int, Place]) -> bool:
    return any(n != position and place.may_meet(other) for n, other in every.items())


def _is_at_most(low: Dim, high: Dim) -> bool:
    """Return whether a number is certainly not above another."""
    difference = dim(high - low)
    return isinstance(difference, int) and difference >= 0
