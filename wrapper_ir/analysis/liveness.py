"""Liveness: the storages of a program, the names that share them, and how long each is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.ops import FIXED_WRITERS, begins_work, escapes_to, waits_for_work
from wrapper_ir.lines import (
    USUAL,
    BufferInput,
    BufferValue,
    Place,
    effects,
    regions_of,
)
from wrapper_ir.lines.base import Role, Trait
from wrapper_ir.lines.traits import (
    allocates,
    allocates_one,
    calls_op,
    is_slice,
    own_roles,
    takes_memory,
    works,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wrapper_ir.lines import AnyLine, Effects, Program, Region


# Liveness: which storage a name stands for, and from where to where it is needed.
#
# A region is looked at by itself: its parameters are borrowed, and a line that holds regions uses
# its operands like any call. Names of one storage are folded together: views (reinterprets, results
# that are an alias) and results that may be one. Peeks by probes count for nothing. What a
# collective reads, it needs until its results are waited for.

_NO_STREAMS: Final[frozenset[int]] = frozenset()

BEFORE: Final = -1
"""The position of what is there before the first line: inputs and parameters."""


@dataclass(slots=True, eq=False)
class Life:
    """A storage under one owner: from the definition of that name to its end.

    Positions are indices of lines in the region's body.
    """

    owner: str
    start: int
    last_use: int
    """The last line that touches any name of the storage, other than to free it."""
    end: int | None = None
    """The line that frees the storage or takes it over; ``None`` where no line says so."""
    is_owned: bool = True
    """Whether the region has to end it; inputs, parameters and constants are the caller's."""
    is_donated: bool = False
    """Whether it is an input of the program that the caller gives up: its last use ends it."""
    leaves: bool = False
    """Whether a name of it is a result."""
    place: Place = USUAL
    """The memory of its device that it lies in."""
    is_allocation: bool = False
    """Whether the line that made it, or that made what it took over, is a plain allocation."""
    is_pool: bool = False
    pool: Life | None = None
    """The pool that it is a slice of."""
    before: Life | None = None
    """The life that the storage began with, if it went on from another name."""
    is_held: bool = False
    """Whether an object may hold it beyond its end."""
    was_taken: bool = False
    """Whether it goes on under another name."""
    written: bool = False
    """Whether a line writes to it; what allocates or returns it does not."""
    escapes: bool = False
    """Whether code gets it that may hold on to it and look later."""
    streams: frozenset[int] = _NO_STREAMS
    """Streams of the lines that make it and of the calls that touch it."""
    stream: int = 0
    """The stream that its memory is from."""
    mempool: int = 0
    """The memory pool that its memory is from."""

    @property
    def first(self) -> Life:
        """The life that the storage began with: this one, if no other name had it before."""
        return self.before or self


class Liveness:
    """The lives of one region's storages, in the order in which they begin.

    Args:
        region: The region.
        program: The program it is from.
        observe: Called with the position, the line and its effects, for each line: what else is to
            be learnt in the same walk. Effects of a long program are too many to be kept.
    """

    def __init__(
        self,
        region: Region,
        program: Program,
        observe: Callable[[int, AnyLine, Effects], None] | None = None,
    ) -> None:
        self.lives: list[Life] = []
        self._by_name: dict[str, tuple[Life, ...]] = {}
        self._at_work: dict[Life, tuple[Life, ...]] = {}
        self._program = program
        is_whole = region.params == program.inputs
        for item in region.params:
            if isinstance(item, BufferInput):
                is_donated = is_whole and item.donated
                life = Life(item.name, BEFORE, BEFORE, is_owned=False, is_donated=is_donated)
                self._add(item.name, life)
        for position, line in enumerate(region.body):
            found = effects(line, program)
            self._step(position, line, found)
            if observe is not None:
                observe(position, line, found)
        for value in region.results:
            for life in self.of(value.buffer) if isinstance(value, BufferValue) else ():
                _leave(life)

    def of(self, name: str) -> tuple[Life, ...]:
        """The storages that a name may be a view of; none for a name of another region."""
        found = self._by_name.get(name)
        if found is None and name in self._program.constants:
            found = (Life(name, BEFORE, BEFORE, is_owned=False),)
            self._by_name[name] = found
        return found or ()

    def storages(self, names: Iterable[str]) -> set[Life]:
        """The storages that names may be views of, each as the life that it began with."""
        return {life.first for name in names for life in self.of(name)}

    def owned(self) -> list[Life]:
        """Live ranges that the region has to end."""
        return [life for life in self.lives if life.is_owned]

    @cached_property
    def chains(self) -> dict[Life, list[Life]]:
        """The lives of each storage in their order, by the first of them."""
        found: dict[Life, list[Life]] = {}
        for life in self.lives:
            found.setdefault(life.first, []).append(life)
        return found

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
        """Note what else a line does to storages, those included that it makes."""
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
                life = Life(name, position, position, is_allocation=allocates_one(line))
                if allocates(line):
                    life.place = line.place
                    life.is_pool = Trait.POOL in line.traits
                elif is_slice(line):
                    life.pool = next(iter(self.of(line.pool)), None)
                if takes_memory(line):
                    life.stream, life.mempool = line.stream, line.mempool
                self._add(name, life)

    def _work_on(
        self, position: int, line: AnyLine, found: Effects, streams: frozenset[int]
    ) -> None:
        """Note what work that begins goes on reading, or that it is over."""
        if begins_work(line):
            read = tuple(life for name in found.reads for life in self.of(name))
            for name in found.written:
                self._at_work.update(dict.fromkeys(self.of(name), read))
        elif waits_for_work(line):
            # One wait may stand for all tensors of an op or for one of them: the last is taken.
            for life in (life for name in found.reads for life in self.of(name)):
                for read_life in self._at_work.get(life, ()):
                    _touch(read_life, position, streams)

    def _take(self, position: int, name: str, donor: str) -> None:
        life = Life(name, position, position)
        for old in self.of(donor)[:1]:
            old.end, old.was_taken = position, True
            life.before = old.first
            life.place, life.is_allocation, life.pool = old.place, old.is_allocation, old.pool
            life.stream, life.mempool = old.stream, old.mempool
        self._add(name, life)


def streams_of(line: AnyLine) -> frozenset[int]:
    """The streams that a line, or a line inside its regions, has work or memory on."""
    if works(line):
        return frozenset((line.stream,))
    regions = regions_of(line)
    if not regions:
        return _NO_STREAMS
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


# The storage map of a program: who shares storage, and what happens to each, learnt in one walk.
#
# Storages are the lives of :class:`~wrapper_ir.analysis.liveness.Liveness`, asked by the names that
# may be views of them. What concerns one name rather than its storage stands here.


def last_uses(region: Region, program: Program) -> dict[str, int]:
    """Return the last line that touches each buffer; results count as one more line."""
    last: dict[str, int] = {}
    for index, line in enumerate(region.body):
        _note_uses(effects(line, program), index, last)
    _note_results(region, last)
    return last


def _note_uses(found: Effects, index: int, last: dict[str, int]) -> None:
    for names in (found.uses, found.reads, found.writes, found.kills, found.takes, found.peeks):
        for name in names:
            last[name] = index


def _note_results(region: Region, last: dict[str, int]) -> None:
    for value in region.results:
        if isinstance(value, BufferValue):
            last[value.buffer] = len(region.body)


def mutated_inputs(program: Program, lives: Liveness | None = None) -> list[int]:
    """Return the positions of inputs whose storage some line writes to, under whatever name.

    Args:
        program: The program.
        lives: The lives of its body, where they are known.
    """
    found = Liveness(program.region, program) if lives is None else lives
    written = {life.first.owner for life in found.lives if life.written}
    return [
        position
        for position, param in enumerate(program.inputs)
        if isinstance(param, BufferInput) and param.name in written
    ]


class StorageMap:
    """The storages of a program's body and what happens to each.

    Args:
        program: The program; regions inside its lines are not looked into.
    """

    def __init__(self, program: Program) -> None:
        self.last: dict[str, int] = {}
        """As of :func:`last_uses`."""
        self.touched: set[str] = set()
        """Names touched by anything but a ``Free``."""
        self.written: set[str] = set()
        """Names that are written through."""
        self.written_by_ops: set[str] = set()
        self.resizable: set[str] = set()
        """Names written by ops that might want another size than the buffer's."""
        self.handled: set[str] = set()
        """Names touched by more than what cuts slices out of pools, and by ``Free``."""
        self._escaping: set[str] = set()
        self._returned_for: dict[str, list[str]] = {}
        """Results of calls, with the arguments that they are or may be."""
        self.lives = Liveness(program.region, program, self._learn)
        """The storages."""
        _note_results(program.region, self.last)
        leaves = {v.buffer for v in program.results if isinstance(v, BufferValue)}
        self._escaping |= leaves
        self.touched |= leaves
        names = (item.name for item in program.inputs if isinstance(item, BufferInput))
        self.touched_inputs = tuple(name for name in names if name in self.touched)
        """Buffer inputs that something reads, writes, looks at or returns, in order."""

    def _learn(self, index: int, line: AnyLine, found: Effects) -> None:
        _note_uses(found, index, self.last)
        touched = (*found.uses, *found.reads, *found.writes, *found.takes, *found.peeks)
        self.touched.update(touched)
        if not is_slice(line):
            self.handled.update(touched)
        self.written.update(found.writes)
        if found.aliases and Role.VIEW not in own_roles(line):
            for name, source, _ in found.aliases:
                self._returned_for.setdefault(name, []).append(source)
        if calls_op(line):
            self.written_by_ops.update(found.writes)
            if line.op not in FIXED_WRITERS:
                self.resizable.update(found.writes)
        if escapes_to(line, found):
            self._escaping.update(found.touched)

    def taken(self) -> set[Life]:
        """Return the storages that go on under another name."""
        return {life.first for life in self.lives.lives if life.was_taken}

    def ending(self) -> set[Life]:
        """Return the storages that end in the program, whatever they are called by then."""
        lives = self.lives.lives
        return {life.first for life in lives if life.end is not None and not life.was_taken}

    def outgoing(self) -> set[Life]:
        """Return the storages that leave it, or that code gets which may hold on to them."""
        lives = self.lives.lives
        return self.with_pools({life.first for life in lives if _goes_out(life)})

    def with_pools(self, found: set[Life]) -> set[Life]:
        """Return storages and the pools that they lie in."""
        return found | {life.pool.first for life in found if life.pool is not None}

    def escaping(self) -> set[str]:
        """Return the names whose tensor object may get out, or to code that may keep it.

        A view that a line of its own makes is an object of its own, so only what calls return for
        it counts.
        """
        found: set[str] = set()
        todo = list(self._escaping)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(self._returned_for.get(name, ()))
        return found


def _goes_out(life: Life) -> bool:
    return life.leaves or life.escapes or life.is_held
