"""Ends of storage: ``free`` lines after the last use, and allocations that reuse what is freed."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import BEFORE, Life, Liveness
from wrapper_ir.analysis.ordering import Clocks, touch
from wrapper_ir.lines.traits import allocates_one, calls_op, checks_layout, ends, shows
from wrapper_ir.planning.sizes import Heights, Sizes, held_bytes, nbytes_of, peak

if TYPE_CHECKING:
    from collections.abc import Mapping


def insert_frees(program: ir.Program, *, free_inputs: bool | None = None) -> ir.Program:
    """Insert a ``free`` after the last use of all storage that no line ends.

    Existing ends stay, results stay alive, and lines keep their order. Probes do not extend live
    ranges: a free goes behind the probes of the last use's outcome, and a later probe loses the
    buffers that are freed by then. Storage that several streams work on ends where its own stream
    has waited for the others; if it never does, the ``free`` names the streams still at work.

    Args:
        program: A program that verifies; its stage does not change.
        free_inputs: Also drop inputs after their last use, so that the caller's memory can be freed
            before the program ends. By default this is done only in training graphs, whose inputs
            are saved activations.
    """
    if free_inputs is None:
        free_inputs = program.role is not ir.GraphRole.INFERENCE
    region = _with_frees(program.region, program, free_params=free_inputs)
    return program.replace(body=region.body)


def _with_frees(region: ir.Region, program: ir.Program, *, free_params: bool) -> ir.Region:
    liveness = Liveness(region, program)
    behind: defaultdict[int, list[Life]] = defaultdict(list)
    ordered = _ordered(region, liveness, program)
    for life in liveness.lives:
        if life.end is None and not life.leaves and (life.is_owned or free_params):
            end = ordered.get(life)
            behind[life.last_use if end is None else end.position].append(life)
    body: list[ir.AnyLine] = []
    waiting: list[Life] = behind[BEFORE]
    ended: set[Life] = set()
    for position, line in enumerate(region.body):
        if waiting and not (shows(line) and line.when is ir.When.AFTER):
            body.extend(_frees(waiting, ordered))
            ended.update(waiting)
            waiting = []
        new = ir.map_regions(line, lambda inner: _with_frees(inner, program, free_params=False))
        body.append(_seeing(new, liveness, ended) if shows(new) else new)
        waiting += behind[position]
    body.extend(_frees(waiting, ordered))
    return dataclasses.replace(region, body=tuple(body))


def _seeing(line: ir.Probe, liveness: Liveness, ended: set[Life]) -> ir.Probe:
    """Return a probe without the buffers that have ended before it."""
    alive = tuple(name for name in line.buffers if ended.isdisjoint(liveness.of(name)))
    return line if alive == line.buffers else dataclasses.replace(line, buffers=alive)


def _frees(lives: list[Life], ordered: Mapping[Life, _OrderedEnd]) -> list[ir.Free]:
    """Return ``free`` lines: slices before their pools, otherwise in order of definition."""
    slices_first = sorted(lives, key=lambda life: (life.pool is None, life.start))
    after = {life: ordered[life].after for life in lives if life in ordered}
    return [ir.Free(life.owner, after.get(life, ())) for life in slices_first]


# Freed memory goes back to the stream that it was allocated on, which may reuse it at once. So
# storage ends where that stream has waited for the work of the others. If it never does, the
# allocator has to be told which streams to wait for.


class _OrderedEnd(NamedTuple):
    """The line after which a storage can end, and the streams still working on it then."""

    position: int
    after: tuple[int, ...] = ()


def _ordered(region: ir.Region, liveness: Liveness, program: ir.Program) -> dict[Life, _OrderedEnd]:
    """Return the ends of storages in a program with streams; empty for a program without."""
    if not program.streams:
        return {}
    clocks = Clocks(program)
    #: The last line, counted from 1, that touches a storage on each stream.
    last: defaultdict[Life, dict[int, int]] = defaultdict(dict)
    ending: defaultdict[int, list[Life]] = defaultdict(list)
    for life in liveness.lives:
        ending[life.last_use].append(life)
    found: dict[Life, _OrderedEnd] = {}
    waiting: list[Life] = []
    for index, line in enumerate(region.body):
        work = touch(line, program)
        clocks.step(line, index + 1)
        for name in (*work.reads, *work.writes, *work.made):
            for life in liveness.of(name):
                last[life][work.stream] = index + 1
        for life in (*waiting, *ending[index]):
            uses = last[life].items()
            left = tuple(s for s, at in uses if not clocks.sees(life.stream, s, at))
            if life.last_use == index:
                found[life] = _OrderedEnd(index, left)
            elif not left:
                found[life] = _OrderedEnd(index)
        waiting = [life for life in (*waiting, *ending[index]) if found[life].after]
    return found


# Line reuse: an allocation takes over storage that was freed before.
#
# The basic rule is that of Inductor's line reuse: walk the lines, remember what is freed, and let
# an allocation of the same device, memory, element size and byte count take the storage freed last.
# If there is none of its size, a large allocation takes the smallest that holds it, up to twice its
# size. This is done only for large allocations, since small ones cost an allocator nothing, while
# fresh pages cost fifteen times as much as touching old ones; and only if the whole plan then
# allocates fewer bytes.
#
# Holding storage from its ``free`` to the allocation raises the peak if the peak lies between. So
# the walk tracks the bytes held at each line and skips reuses that would raise their maximum.
# Storage larger than its buffer counts in full. A plan is therefore never worse than freeing
# everything at once (at the hints, if sizes are symbolic).
#
# A library op that allocates its own results uses memory that no line shows: the results, which are
# counted, and its workspace, which is not. If the true peak is inside such an op, a donor held
# across the call would raise it unnoticed. So donors do not outlive such a call.
#
# The storage freed last is the best donor of its size because it is held for the shortest time. If
# it would raise the peak, so would every other.

LARGE: Final = 128 * 1024
"""Bytes from which allocators map memory from the system and return it when it is freed."""

_MOST_TRIED: Final = 8

_CLASS: Final = 2
"""The largest ratio of a donor's size to the size needed."""

ALIGNMENT: Final = 16
"""The alignment of allocations in bytes. The result of a library op may be less aligned, so it is a
donor only if the program checks its alignment."""


class _Key(NamedTuple):
    """Properties that a donor and an allocation must share."""

    device: ir.Device
    place: ir.Place
    itemsize: int
    nbytes: ir.Dim
    stream: int
    mempool: int
    opaque: ir.Layout | None
    """The layout, if it is opaque: the storage can only hold the same layout again."""


class _Donor(NamedTuple):
    """Freed storage, and the position of its ``free``."""

    life: Life
    position: int


def reuse_storage(program: ir.Program) -> ir.Program:
    """Turn each allocation that can take over freed storage into a ``reuse``.

    Expects explicit ends (:func:`~wrapper_ir.planning.insert_frees`); storage that no line frees is
    no donor. The donor's ``free`` is removed, the allocation becomes a ``reuse`` in place, and all
    other lines keep their order.
    """
    return program.replace(body=_reused(program.region, program, Sizes(program)).body)


def _reused(region: ir.Region, program: ir.Program, sizes: Sizes) -> ir.Region:
    inside = partial(_reused, program=program, sizes=sizes)
    lines = tuple(ir.map_regions(line, inside) for line in region.body)
    inner = dataclasses.replace(region, body=lines)
    match = _Match(inner, program, sizes, best=True)
    if match.inexact:
        exact = _Match(inner, program, sizes, best=False)
        match = match if match.saved > exact.saved else exact
    donors = match.donors
    body: list[ir.AnyLine] = []
    gone = {donor.position for donor in donors.values()}
    for position, line in enumerate(inner.body):
        donor = donors.get(position)
        if donor is not None and allocates_one(line):
            body.append(ir.Reuse(line.out, donor.life.owner, origin=line.origin))
        elif position not in gone:
            body.append(line)
    return dataclasses.replace(inner, body=tuple(body))


class _Match:
    """The donors that one walk over a region finds for its allocations."""

    def __init__(self, region: ir.Region, program: ir.Program, sizes: Sizes, *, best: bool) -> None:
        self.best = best
        #: Bytes saved, and the number of reuses of larger storage.
        self.saved = self.inexact = 0
        self.program = program
        self.sizes = sizes
        self.liveness = Liveness(region, program)
        held = held_bytes(region, self.liveness, program, sizes)
        self.heights = Heights(held)
        self.highest = peak(held)
        self.freed: defaultdict[_Key, list[_Donor]] = defaultdict(list)
        #: Sorted sizes of large freed storage, by the rest of its key.
        self.sizes_of: defaultdict[_Key, list[int]] = defaultdict(list)
        self.length = len(region.body)
        self.chains = self.liveness.chains
        #: Bytes of storage that is larger than its buffer.
        self.capacity: dict[Life, int] = {}
        self.aligned: set[str] = set()
        #: Donors by the position of the allocation that takes them over.
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

    def give(self, position: int, line: ir.Free) -> None:
        """Record the storage that a line frees as a donor."""
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

    def take(self, position: int, line: ir.Allocate) -> None:
        """Let an allocation take the last freed storage that fits, if the peak allows it."""
        for life in self.liveness.of(line.out)[:1]:
            key = self.key(life)
            if key is None:
                continue
            stack = self.freed.get(key)
            if stack:
                self.try_to_take(position, life, stack)
            elif self.best and type(key.nbytes) is int and key.nbytes >= LARGE:
                stacks = map(self.freed.__getitem__, self.larger(key, key.nbytes))
                self.inexact += any(self.try_to_take(position, life, each) for each in stacks)

    def larger(self, key: _Key, nbytes: int) -> list[_Key]:
        """Return the keys of freed storage up to ``_CLASS`` times larger, the smallest first."""
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
        """Take the storage freed last, unless that would raise the peak or enlarge a result."""
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
            # The storage keeps its size through later reuses.
            self.capacity.update(dict.fromkeys(self.chains[life.first], whole))
        self.heights.add(donor.position, position, whole)
        self.donors[position] = stack.pop()
        self.saved += nbytes
        return True

    def _nbytes(self, life: Life) -> ir.Dim:
        layout = self.program.buffers.get(life.owner)
        return 0 if layout is None else nbytes_of(layout)

    def can_give(self, life: Life, line: ir.Free) -> bool:
        """Return whether storage may be reused under another name once ``line`` frees it."""
        if life.is_held or not life.is_owned or life.owner != line.buffer:
            return False
        if line.after:  # streams that may still be working on it
            return False
        if life.pool is not None or life.is_pool:
            return False
        return life.is_allocation or life.owner in self.aligned

    def key(self, life: Life) -> _Key | None:
        """Return the key that donor and allocation must share; ``None`` if nothing can match.

        Streams need no further check than that both have the same one: the work on the donor is
        done there when it is freed, and users of the allocation wait for that stream.
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


def _takes_hidden_memory(line: ir.AnyLine) -> bool:
    """Return whether a line, or its regions, calls an op that allocates its own results."""
    if calls_op(line):
        return bool(line.results)
    regions = [region for _, region in ir.regions_of(line)]
    return any(_takes_hidden_memory(inner) for region in regions for inner in region.body)
