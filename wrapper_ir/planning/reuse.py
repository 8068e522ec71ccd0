"""Exact-size reuse: an allocation takes over storage of its size that was freed before.

The rule is that of Inductor's own line reuse: walk the lines, remember what is freed, and let an
allocation of the same device, memory, element size and number of bytes take the storage freed last.
Keeping storage from its ``free`` to the allocation can raise the peak, if the peak lies between; so
the bytes held at each line are kept, and what would raise the highest of them is not reused. A plan
is therefore never worse than freeing everything at once (at the hints, where sizes are symbolic).

A library op that makes its results itself takes memory that no line shows: the results, which are
counted, and whatever it works with, which is not. Where the true peak is inside such an op, a donor
kept across it would raise it unseen. So donors do not outlive such a call.

Why the storage freed last: among donors of one size it is kept for the shortest time. When it would
raise the peak, so would every other.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.lines import (
    Allocate,
    AssertLayout,
    Device,
    Dim,
    ExternKernel,
    Free,
    MemoryKind,
    Reuse,
    map_regions,
    regions_of,
)
from wrapper_ir.planning.liveness import Liveness
from wrapper_ir.planning.sizes import Sizes, nbytes_of
from wrapper_ir.planning.timeline import Heights, held_bytes, peak

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Program, Region
    from wrapper_ir.planning.liveness import Life

ALIGNMENT: Final = 16
"""Bytes. Allocations begin at such an address; a library op's result may not, and is a donor only
where the program checks it."""


_USUAL_STREAM: Final = frozenset((0,))


class _Key(NamedTuple):
    """What donor and allocation have in common."""

    device: Device
    memory: MemoryKind
    itemsize: int
    nbytes: Dim
    streams: frozenset[int]


class _Donor(NamedTuple):
    """Storage that was freed, and the position of its ``free``."""

    life: Life
    position: int


def reuse_storage(program: Program) -> Program:
    """The program with each allocation that can take over freed storage made a ``reuse``.

    Expects explicit ends (:func:`~wrapper_ir.planning.insert_frees`); storage that no line frees is
    nobody's donor. The ``free`` of a donor goes, the allocation becomes a ``reuse`` at its place,
    and all other lines stay in their order.
    """
    sizes = Sizes(program)
    region = _reused(program.region, program, sizes)
    return program if region is program.region else program.replace(body=region.body)


def _reused(region: Region, program: Program, sizes: Sizes) -> Region:
    inner = dataclasses.replace(
        region,
        body=tuple(
            map_regions(line, lambda nested: _reused(nested, program, sizes))
            for line in region.body
        ),
    )
    donors = _Match(inner, program, sizes).donors
    body: list[AnyLine] = []
    gone = {donor.position for donor in donors.values()}
    for position, line in enumerate(inner.body):
        donor = donors.get(position)
        if donor is not None and isinstance(line, Allocate):
            body.append(Reuse(line.out, donor.life.owner, origin=line.origin))
        elif position not in gone:
            body.append(line)
    return dataclasses.replace(inner, body=tuple(body))


class _Match:
    """One walk over a region that finds a donor for each allocation that has one."""

    def __init__(self, region: Region, program: Program, sizes: Sizes) -> None:
        self.program = program
        self.sizes = sizes
        self.liveness = Liveness(region, program)
        held = held_bytes(region, self.liveness, program, sizes)
        self.heights = Heights(held)
        self.highest = peak(held)
        self.freed: defaultdict[_Key, list[_Donor]] = defaultdict(list)
        self.aligned: set[str] = set()
        #: The donor of each allocation that takes one over, by the allocation's position.
        self.donors: dict[int, _Donor] = {}
        for position, line in enumerate(region.body):
            if isinstance(line, Free):
                self.give(position, line)
            elif isinstance(line, Allocate) and not line.zeroed:
                self.take(position, line)
            elif isinstance(line, AssertLayout) and line.alignment >= ALIGNMENT:
                self.aligned.add(line.buffer)
            elif _takes_hidden_memory(line):
                self.freed.clear()

    def give(self, position: int, line: Free) -> None:
        """Remembers what a line frees."""
        for life in self.liveness.of(line.buffer)[:1]:
            key = self.key(life) if self.can_give(life, line) else None
            if key is not None:
                self.freed[key].append(_Donor(life, position))

    def take(self, position: int, line: Allocate) -> None:
        """Lets an allocation have the fitting storage freed last, if the peak allows it."""
        for life in self.liveness.of(line.out)[:1]:
            key = self.key(life)
            stack = None if key is None else self.freed.get(key)
            if not stack:
                return
            start, nbytes = stack[-1].position, self.sizes.of(line.out)
            if self.heights.largest(start, position) + nbytes <= self.highest:
                self.heights.add(start, position, nbytes)
                self.donors[position] = stack.pop()

    def _nbytes(self, life: Life) -> Dim:
        layout = self.program.buffers.get(life.owner)
        return 0 if layout is None else nbytes_of(layout)

    def can_give(self, life: Life, line: Free) -> bool:
        """Whether storage may go on under another name once ``line`` frees it."""
        if not life.is_owned or life.owner != line.buffer or life.pool is not None or life.is_pool:
            return False
        return life.is_allocation or life.owner in self.aligned

    def key(self, life: Life) -> _Key | None:
        """What a donor and an allocation must share; ``None`` where the storage fits nothing.

        Storage that several streams touch is left alone: the order of lines is not their order.
        """
        layout = self.program.buffers.get(life.owner)
        if layout is None or len(life.streams) > 1:
            return None
        nbytes = nbytes_of(layout)
        if nbytes == 0 or (life.before is not None and nbytes != self._nbytes(life.before)):
            return None
        itemsize = layout.dtype.itemsize
        return _Key(layout.device, life.memory, itemsize, nbytes, life.streams or _USUAL_STREAM)


def _takes_hidden_memory(line: AnyLine) -> bool:
    """Whether a line calls, in its regions too, an op that makes its results itself."""
    if isinstance(line, ExternKernel):
        return bool(line.results)
    return any(
        _takes_hidden_memory(inner) for _, region in regions_of(line) for inner in region.body
    )
