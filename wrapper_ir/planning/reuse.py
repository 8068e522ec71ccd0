"""Line reuse: an allocation takes over storage that was freed before.

The first rule is that of Inductor's own line reuse: walk the lines, remember what is freed, and let
an allocation of the same device, memory, element size and number of bytes take the storage freed
last. Where there is none of its size, a large allocation takes the smallest that holds it, of up to
twice its size. Only large ones, since small ones cost an allocator nothing, while fresh pages cost
fifteen times what touching old ones does; and only where the whole plan then allocates fewer bytes.

Keeping storage from its ``free`` to the allocation can raise the peak, if the peak lies between; so
the bytes held at each line are kept, and what would raise the highest of them is not reused;
storage that is larger than what lies in it counts whole. A plan is therefore never worse than
freeing everything at once (at the hints, where sizes are symbolic).

A library op that makes its results itself takes memory that no line shows: the results, which are
counted, and whatever it works with, which is not. Where the true peak is inside such an op, a donor
kept across it would raise it unseen. So donors do not outlive such a call.

Why the storage freed last: among donors of one size it is kept for the shortest time. When it would
raise the peak, so would every other.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.lines import (
    Allocate,
    Device,
    Dim,
    Free,
    Place,
    Reuse,
    map_regions,
    regions_of,
)
from wrapper_ir.lines.traits import allocates_one, calls_op, checks_layout, ends
from wrapper_ir.planning.sizes import Heights, Sizes, held_bytes, nbytes_of, peak

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines import AnyLine, Layout, Program, Region

LARGE: Final = 128 * 1024
"""Bytes: from here allocators get memory from the system, page by page, and give it back."""

_MOST_TRIED: Final = 8

_CLASS: Final = 2
"""How many times larger than needed a storage may be that is taken over."""

ALIGNMENT: Final = 16
"""Bytes. Allocations begin at such an address; a library op's result may not, and is a donor only
where the program checks it."""


class _Key(NamedTuple):
    """Properties that a donor and an allocation must share."""

    device: Device
    place: Place
    itemsize: int
    nbytes: Dim
    stream: int
    mempool: int
    opaque: Layout | None
    """The layout, if only the device understands it: no other may follow."""


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
    match = _Match(inner, program, sizes, best_fit=True)
    if match.inexact:
        exact = _Match(inner, program, sizes, best_fit=False)
        match = match if match.saved > exact.saved else exact
    donors = match.donors
    body: list[AnyLine] = []
    gone = {donor.position for donor in donors.values()}
    for position, line in enumerate(inner.body):
        donor = donors.get(position)
        if donor is not None and allocates_one(line):
            body.append(Reuse(line.out, donor.life.owner, origin=line.origin))
        elif position not in gone:
            body.append(line)
    return dataclasses.replace(inner, body=tuple(body))


class _Match:
    """One walk over a region that finds a donor for each allocation that has one."""

    def __init__(self, region: Region, program: Program, sizes: Sizes, *, best_fit: bool) -> None:
        self.best_fit = best_fit
        #: Bytes that need not be allocated, and how many take more than they need.
        self.saved = self.inexact = 0
        self.program = program
        self.sizes = sizes
        self.liveness = Liveness(region, program)
        held = held_bytes(region, self.liveness, program, sizes)
        self.heights = Heights(held)
        self.highest = peak(held)
        self.freed: defaultdict[_Key, list[_Donor]] = defaultdict(list)
        #: Sizes of large storage that was freed, sorted, by what else it has to have.
        self.sizes_of: defaultdict[_Key, list[int]] = defaultdict(list)
        self.length = len(region.body)
        self.chains = self.liveness.chains
        #: Bytes of storage that is larger than what lies in it.
        self.capacity: dict[Life, int] = {}
        self.aligned: set[str] = set()
        #: The donor of each allocation that takes one over, by the allocation's position.
        self.donors: dict[int, _Donor] = {}
        for position, line in enumerate(region.body):
            if ends(line):
                self.give(position, line)
            elif allocates_one(line) and not line.zeroed:
                self.take(position, line)
            elif checks_layout(line) and line.alignment >= ALIGNMENT:
                self.aligned.add(line.buffer)
            elif _takes_hidden_memory(line):
                self.freed.clear()

    def give(self, position: int, line: Free) -> None:
        """Remembers what a line frees."""
        for life in self.liveness.of(line.buffer)[:1]:
            key = self.key(life) if self.can_give(life, line) else None
            if key is not None:
                stack = self.freed[key]
                if not stack and type(key.nbytes) is int and key.nbytes >= LARGE:
                    known = self.sizes_of[key._replace(nbytes=0)]
                    at = bisect_right(known, key.nbytes)
                    if at == 0 or known[at - 1] != key.nbytes:
                        known.insert(at, key.nbytes)
                stack.append(_Donor(life, position))

    def take(self, position: int, line: Allocate) -> None:
        """Lets an allocation have the fitting storage freed last, if the peak allows it."""
        for life in self.liveness.of(line.out)[:1]:
            key = self.key(life)
            if key is None:
                continue
            stack = self.freed.get(key)
            if stack:
                self.try_to_take(position, life, stack)
            elif self.best_fit and type(key.nbytes) is int and key.nbytes >= LARGE:
                self.inexact += any(
                    self.try_to_take(position, life, self.freed[other])
                    for other in self.larger(key, key.nbytes)
                )

    def larger(self, key: _Key, nbytes: int) -> list[_Key]:
        """Keys of freed storage somewhat larger than asked for, the smallest first."""
        known = self.sizes_of.get(key._replace(nbytes=0), [])
        at = bisect_right(known, nbytes)
        found: list[_Key] = []
        while at < len(known) and known[at] <= _CLASS * nbytes and len(found) < _MOST_TRIED:
            other = key._replace(nbytes=known[at])
            if self.freed[other]:
                found.append(other)
                at += 1
            else:
                del known[at]
        return found

    def try_to_take(self, position: int, life: Life, stack: list[_Donor]) -> bool:
        """Takes the storage freed last, unless that would raise the peak or enlarge a result."""
        donor = stack[-1]
        nbytes = self.sizes.of(life.owner)
        whole = self.capacity.get(donor.life, self.sizes.of(donor.life.owner))
        last = self.chains[life.first][-1]
        end = self.length if last.end is None else last.end
        if whole > nbytes and (last.leaves or last.end is None):
            return False
        if self.heights.largest(donor.position, position) + whole > self.highest:
            return False
        if whole > nbytes:
            if self.heights.largest(position, end) + whole - nbytes > self.highest:
                return False
            self.heights.add(position, end, whole - nbytes)
            # The storage keeps its size under each name that it goes on under.
            self.capacity.update(dict.fromkeys(self.chains[life.first], whole))
        self.heights.add(donor.position, position, whole)
        self.donors[position] = stack.pop()
        self.saved += nbytes
        return True

    def _nbytes(self, life: Life) -> Dim:
        layout = self.program.buffers.get(life.owner)
        return 0 if layout is None else nbytes_of(layout)

    def can_give(self, life: Life, line: Free) -> bool:
        """Return whether storage may be reused under another name once ``line`` frees it."""
        if life.is_held or not life.is_owned or life.owner != line.buffer:
            return False
        if line.after:  # streams that may be at work on it yet
            return False
        if life.pool is not None or life.is_pool:
            return False
        return life.is_allocation or life.owner in self.aligned

    def key(self, life: Life) -> _Key | None:
        """Return the key that donor and allocation must share; ``None`` if storage fits nothing.

        That both are from one stream is all that streams ask for: what is freed is done there with
        the donor, and what uses the allocation waits for it there.
        """
        layout = self.program.buffers.get(life.owner)
        if layout is None:
            return None
        nbytes = nbytes_of(layout)
        if nbytes == 0 or (life.before is not None and nbytes != self._nbytes(life.before)):
            return None
        itemsize = layout.dtype.itemsize
        opaque = layout if layout.is_opaque else None
        where = (life.stream, life.mempool)
        return _Key(layout.device, life.place, itemsize, nbytes, *where, opaque)


def _takes_hidden_memory(line: AnyLine) -> bool:
    """Return whether a line, or its regions, calls an op that allocates its own results."""
    if calls_op(line):
        return bool(line.results)
    return any(
        _takes_hidden_memory(inner) for _, region in regions_of(line) for inner in region.body
    )
