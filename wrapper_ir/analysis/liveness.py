"""Liveness: the storages of a program, the names that share them, and how long each is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.collectives import (
    begins_work,
    is_collective,
    leaves_peers_running,
    shared_with_peers,
    waits_for_work,
    worked_on,
)
from wrapper_ir.analysis.ops import FIXED_WRITERS, escapes_to
from wrapper_ir.lines import USUAL, BufferInput, BufferValue, Place, effects, regions_of, traits
from wrapper_ir.lines.base import Role, Runs, Trait
from wrapper_ir.lines.program import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wrapper_ir.lines import AnyLine, Effects, Program, Region


# Each region is analysed on its own: its parameters are borrowed, and a line with nested regions
# uses its operands like any call. All names in one alias class share a life: views (reinterprets,
# results that are aliases) and possible aliases. A probe's peek is not a use. A collective uses its
# operands until its results are waited for, and memory that an op of one side lets peers access is
# used until the next op that all members of a group take part in.

_NO_STREAMS: Final[frozenset[int]] = frozenset()
_CALLERS: Final = frozenset((0,))

BEFORE: Final = -1
"""The position of definitions before the first line: inputs and parameters."""


@dataclass(slots=True, eq=False)
class Life:
    """The live range of a storage under one owner, from its definition to its end.

    Positions are indices of lines in the region's body.
    """

    owner: str
    start: int
    last_use: int
    """The last line that touches any name of the storage, other than to free it."""
    end: int | None = None
    """The line that frees the storage or takes it over; ``None`` if there is none."""
    is_owned: bool = True
    """True if the region must end it. The caller owns inputs, parameters and constants."""
    is_donated: bool = False
    """True for a donated input of the program, which may end after its last use."""
    leaves: bool = False
    """True if one of its names is a result."""
    place: Place = USUAL
    """The kind and space of memory on its device."""
    is_allocation: bool = False
    """True if its memory, taken over or not, comes from a plain allocation."""
    is_pool: bool = False
    pool: Life | None = None
    """The pool that it is a slice of."""
    before: Life | None = None
    """The first life of the storage, if this one took it over."""
    is_held: bool = False
    """True if an object may hold it past its end."""
    was_taken: bool = False
    """True if another life takes over the storage."""
    written: bool = False
    """True if a line writes to it, other than by allocating or returning it."""
    escapes: bool = False
    """True if it is passed to code that may keep it and read it later."""
    streams: frozenset[int] = _NO_STREAMS
    """Streams of the lines that define it and of the calls that touch it."""
    stream: int = 0
    """The stream that its memory was allocated on."""
    mempool: int = 0
    """The memory pool that its memory was allocated from."""

    @property
    def first(self) -> Life:
        """The first life of the storage: this one, unless it took the storage over."""
        return self.before or self

    @property
    def is_callers(self) -> bool:
        """True if no stream besides the caller's works on it."""
        return self.streams <= _CALLERS

    @property
    def goes_out(self) -> bool:
        """True if something outside of the region may see it."""
        return self.leaves or self.escapes or self.is_held


@dataclass(slots=True, eq=False)
class _Work:
    """Work that goes on after the line that starts it, until ``end``, the last to wait for it."""

    start: int
    read: tuple[Life, ...]
    end: int | None = None


class Liveness:
    """The lives of one region's storages, in order of definition.

    ``observe`` is called with the position, the line and its effects for each line, so that others
    can learn from the same walk. The effects of a long program are too many to keep.
    """

    def __init__(
        self,
        region: Region,
        program: Program,
        observe: Callable[[int, AnyLine, Effects], None] | None = None,
    ) -> None:
        self.lives: list[Life] = []
        #: Names that are passed to code that may keep them.
        self.escaping: set[str] = set()
        self._by_name: dict[str, tuple[Life, ...]] = {}
        self._work: dict[Life, list[_Work]] = {}
        self._accessed: dict[Life, None] = {}
        """Storages that peers may still access."""
        self._constants = program.constants  # not the program: what is found outlives no program
        is_whole = region.params == program.inputs
        for item in region.params:
            if isinstance(item, BufferInput):
                is_donated = is_whole and item.donated
                life = Life(item.name, BEFORE, BEFORE, is_owned=False, is_donated=is_donated)
                self._add(item.name, life)
        for position, line in enumerate(region.body):
            found = effects(line, program)
            self._step(position, line, found)
            if is_collective(line):
                self._let_peers(position, line, program)
            if observe is not None:
                observe(position, line, found)
        for life in self._accessed:
            _touch(life, len(region.body) - 1, _NO_STREAMS)
        for value in region.results:
            for life in self.of(value.buffer) if isinstance(value, BufferValue) else ():
                _leave(life)

    def of(self, name: str) -> tuple[Life, ...]:
        """Return the storages that a name may be a view of; none for a name of another region."""
        found = self._by_name.get(name)
        if found is None and name in self._constants:
            found = (Life(name, BEFORE, BEFORE, is_owned=False),)
            self._by_name[name] = found
        return found or ()

    def storages(self, names: Iterable[str]) -> set[Life]:
        """Return the first lives of the storages that the names may be views of."""
        return {life.first for name in names for life in self.of(name)}

    def owned(self) -> list[Life]:
        """Return the live ranges that the region has to end."""
        return [life for life in self.lives if life.is_owned]

    @cached_property
    def chains(self) -> dict[Life, list[Life]]:
        """All lives of each storage in order, keyed by the first."""
        found: dict[Life, list[Life]] = {}
        for life in self.lives:
            found.setdefault(life.first, []).append(life)
        return found

    def in_flight(self, name: str, position: int) -> bool:
        """Return whether work writes a buffer from a line or before it until that line or later.

        The line that starts the work and the one that waits for it count.
        """
        return any(
            work.start <= position and (work.end is None or position <= work.end)
            for life in self.of(name)
            for work in self._work.get(life, ())
        )

    def work_spans(self) -> list[tuple[int, int]]:
        """Return the lines that start work which goes on, each with the last that waits for it.

        Work that nothing waits for is left out.
        """
        works = {id(work): work for each in self._work.values() for work in each}.values()
        return sorted((work.start, work.end) for work in works if work.end is not None)

    def _add(self, name: str, life: Life) -> None:
        self.lives.append(life)
        self._by_name[name] = (life,)

    def _step(self, position: int, line: AnyLine, found: Effects) -> None:
        streams = streams_of(line)
        for name in (*found.uses, *found.reads, *found.writes, *found.takes):
            for life in self.of(name):
                _touch(life, position, streams)
        for name in found.kills:
            for life in self.of(name)[:1]:
                life.end = position
        self._define(position, line, found)
        self._work_on(position, line, found, streams)
        self._mark(line, found, streams)

    def _mark(self, line: AnyLine, found: Effects, streams: frozenset[int]) -> None:
        """Record streams, writes and escapes, also for the storages that the line defines."""
        for name in found.defines if streams else ():
            for life in self.of(name):
                life.streams |= streams
        for name in found.writes:
            for life in self.of(name):
                life.written = True
        for name in found.held:
            for life in self.of(name):
                life.is_held = True
        if escapes_to(line, found):
            self.escaping.update(found.touched)
            for name in found.touched:
                for life in self.of(name):
                    life.escapes = True

    def _define(self, position: int, line: AnyLine, found: Effects) -> None:
        aliased: dict[str, dict[Life, None]] = {}
        for alias in found.aliases:
            aliased.setdefault(alias.name, {}).update(dict.fromkeys(self.of(alias.source)))
        for name in found.defines:
            if found.takes:
                self._take(position, name, found.takes[0])
            elif name in aliased:
                self._by_name[name] = tuple(aliased[name])
            else:
                life = Life(name, position, position, is_allocation=traits.allocates_one(line))
                if traits.allocates(line):
                    life.place = line.place
                    life.is_pool = Trait.POOL in line.traits
                elif traits.is_slice(line):
                    life.pool = next(iter(self.of(line.pool)), None)
                if traits.takes_memory(line):
                    life.stream, life.mempool = line.stream, line.mempool
                self._add(name, life)

    def _work_on(
        self, position: int, line: AnyLine, found: Effects, streams: frozenset[int]
    ) -> None:
        """Extend lives that asynchronous work reads until the line that waits for it."""
        if begins_work(line):
            work = _Work(position, tuple(life for name in found.reads for life in self.of(name)))
            for life in dict.fromkeys(life for n in worked_on(line, found) for life in self.of(n)):
                self._work.setdefault(life, []).append(work)
        elif waits_for_work(line):
            # A wait may cover all tensors of an op or just one, so the last wait counts.
            for life in (life for name in found.reads for life in self.of(name)):
                for work in self._work.get(life, ())[-1:]:
                    work.end = position
                    for read_life in work.read:
                        _touch(read_life, position, streams)

    def _let_peers(self, position: int, line: AnyLine, program: Program) -> None:
        """Extend lives that peers access until a line that all members of a group take part in."""
        if leaves_peers_running(line):
            names = shared_with_peers(program, line)
            self._accessed.update(dict.fromkeys(life for name in names for life in self.of(name)))
            return
        for life in self._accessed:
            _touch(life, position, _NO_STREAMS)
        self._accessed.clear()

    def _take(self, position: int, name: str, donor: str) -> None:
        life = Life(name, position, position)
        for old in self.of(donor)[:1]:
            old.end, old.was_taken = position, True
            life.before = old.first
            life.place, life.is_allocation, life.pool = old.place, old.is_allocation, old.pool
            life.stream, life.mempool = old.stream, old.mempool
        self._add(name, life)


def streams_of(line: AnyLine) -> frozenset[int]:
    """Return the streams on which a line, or a line in its regions, has work or memory."""
    if traits.works(line):
        return frozenset((line.stream,))
    regions = regions_of(line)
    if not regions:
        is_work = line.runs is Runs.CALLER and not traits.allocates(line)
        return _CALLERS if is_work else _NO_STREAMS
    return _NO_STREAMS.union(*(streams_of(inner) for _, region in regions for inner in region.body))


def _touch(life: Life, position: int, streams: frozenset[int]) -> None:
    life.last_use = position
    if not streams <= life.streams:
        life.streams |= streams
    if life.pool is not None:
        life.pool.last_use = position


def _leave(life: Life) -> None:
    life.leaves = True
    if life.pool is not None:
        life.pool.leaves = True


# The storage map of a program. Facts about storages are in `Liveness`, facts about names are here;
# both come from one walk.


def last_uses(region: Region, program: Program) -> dict[str, int]:
    """Return the last line that touches each buffer; results count as one more line."""
    last: dict[str, int] = {}
    for index, line in enumerate(region.body):
        found = effects(line, program)
        last.update(dict.fromkeys((*_touched(found), *found.kills), index))
    _note_results(region, last)
    return last


def _touched(found: Effects) -> tuple[str, ...]:
    """Return the names that a line does anything to but free them."""
    return (*found.uses, *found.reads, *found.writes, *found.takes, *found.peeks)


def _note_results(region: Region, last: dict[str, int]) -> None:
    for value in region.results:
        if isinstance(value, BufferValue):
            last[value.buffer] = len(region.body)


def mutated_inputs(program: Program) -> list[int]:
    """Return the positions of inputs whose storage is written, under any name."""
    lives = storages_of(program).lives.lives
    written = {life.first.owner for life in lives if life.written}
    return [
        position
        for position, param in enumerate(program.inputs)
        if isinstance(param, BufferInput) and param.name in written
    ]


class StorageMap:
    """Uses of the storages and names of a program's body; :func:`storages_of` makes one.

    Nested regions are not visited.
    """

    def __init__(self, program: Program) -> None:
        self.last: dict[str, int] = {}
        """The result of :func:`last_uses`."""
        self.touched: set[str] = set()
        """Names touched by anything but a ``Free``."""
        self.written: set[str] = set()
        """Names that are written through."""
        self.written_by_ops: set[str] = set()
        self.resizable: set[str] = set()
        """Names written by ops that might resize the buffer."""
        self.handled: set[str] = set()
        """Names touched by anything but a ``Free`` or the allocation of a slice."""
        self.made_objects: list[str] = []
        """The objects that ops return, in order."""
        self._returned_for: dict[str, list[str]] = {}
        """The arguments that each result of a call aliases or may alias."""
        self.lives: Liveness = Liveness(program.region, program, self._learn)
        """The storages."""
        _note_results(program.region, self.last)
        self._results = {v.buffer for v in program.results if isinstance(v, BufferValue)}
        self.touched |= self._results
        names = (item.name for item in program.inputs if isinstance(item, BufferInput))
        self.touched_inputs: tuple[str, ...] = tuple(name for name in names if name in self.touched)
        """Buffer inputs that something reads, writes, peeks at or returns, in order."""

    def _learn(self, index: int, line: AnyLine, found: Effects) -> None:
        touched = _touched(found)
        self.last.update(dict.fromkeys((*touched, *found.kills), index))
        self.touched.update(touched)
        if not traits.is_slice(line):
            self.handled.update(touched)
        self.written.update(found.writes)
        if found.aliases and Role.VIEW not in traits.own_roles(line):
            for name, source, _ in found.aliases:
                self._returned_for.setdefault(name, []).append(source)
        if traits.calls_op(line):
            self.written_by_ops.update(found.writes)
            if line.op not in FIXED_WRITERS:
                self.resizable.update(found.writes)
        self.made_objects += found.defines_objects

    def lasting_results(self, program: Program) -> frozenset[int]:
        """Return the positions of results whose memory the program may use in later calls.

        They share, or may share, the memory of a constant or of an object.
        """
        return frozenset(
            position
            for position, value in enumerate(program.results)
            if isinstance(value, BufferValue)
            and any(
                life.is_held or life.first.owner in program.constants
                for life in self.lives.of(value.buffer)
            )
        )

    def taken(self) -> set[Life]:
        """Return the storages that are taken over under another name."""
        return {life.first for life in self.lives.lives if life.was_taken}

    def ending(self) -> set[Life]:
        """Return the storages that end in the program, under any name."""
        lives = self.lives.lives
        return {life.first for life in lives if life.end is not None and not life.was_taken}

    def outgoing(self) -> set[Life]:
        """Return the storages that are returned or that escape, with their pools."""
        lives = self.lives.lives
        return self.with_pools({life.first for life in lives if life.goes_out})

    def with_pools(self, found: set[Life]) -> set[Life]:
        """Return the storages and their pools."""
        return found | {life.pool.first for life in found if life.pool is not None}

    def escaping(self) -> set[str]:
        """Return the names whose tensor object may be returned or kept by other code.

        A view line makes a new tensor object, so only aliases that calls return are followed.
        """
        found: set[str] = set()
        todo = [*self.lives.escaping, *self._results]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(self._returned_for.get(name, ()))
        return found


_KNOWN: Final[Beside[StorageMap]] = Beside()


def storages_of(program: Program, like: Program | None = None) -> StorageMap:
    """Return the storage map of a program, made once. Nobody may change it.

    A program shares that of one ``like`` it, with the same names, uses and ends.
    """
    found = _KNOWN.get(program)
    if found is None:
        found = StorageMap(program) if like is None else storages_of(like)
        _KNOWN.put(program, found)
    return found
