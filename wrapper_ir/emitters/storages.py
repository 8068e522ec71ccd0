"""Names of a program that share storage, and what happens to each: learnt in one walk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.library import FIXED_WRITERS
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.memory import AllocateFromPool, Reinterpret
from wrapper_ir.lines.walk import is_stranger

if TYPE_CHECKING:
    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.effects import Effects
    from wrapper_ir.lines.program import AnyLine, Program


def last_uses(region: Region, program: Program) -> dict[str, int]:
    """Index of the last line that touches each buffer; results count as one more line."""
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


class Storages:
    """The names that share storage and what happens to it, learnt in one walk over the body.

    ``Effects`` are not kept: for a long program they would be a million objects.
    """

    def __init__(self, program: Program) -> None:
        self._parent: dict[str, str] = {}
        self.last: dict[str, int] = {}
        self.touched: set[str] = set()
        """By anything but a ``Free``."""
        self.written: set[str] = set()
        self.taken: set[str] = set()
        self.killed: set[str] = set()
        self.seen_by_strangers: set[str] = set()
        self.written_by_ops: set[str] = set()
        self.resizable: set[str] = set()
        """Written by ops that might want another size than the buffer's."""
        self.handled: set[str] = set()
        """Touched by more than ``AllocateFromPool`` and ``Free``."""
        self.returned_for: dict[str, list[str]] = {}
        """Results of calls, with the arguments that they are or may be."""
        for index, line in enumerate(program.body):
            self._learn(index, line, effects(line, program))
        _note_results(program.region, self.last)
        self.leaves = {v.buffer for v in program.results if isinstance(v, BufferValue)}
        self.touched |= self.leaves

    def _learn(self, index: int, line: AnyLine, found: Effects) -> None:
        _note_uses(found, index, self.last)
        for names in (found.uses, found.reads, found.writes, found.takes, found.peeks):
            self.touched.update(names)
            if not isinstance(line, AllocateFromPool):
                self.handled.update(names)
        self.written.update(found.writes)
        self.taken.update(found.takes)
        self.killed.update(found.kills)
        for name, source, _ in found.aliases:
            self._join(name, source)
            if not isinstance(line, Reinterpret):
                self.returned_for.setdefault(name, []).append(source)
        for source in found.takes:
            for name in found.defines:
                self._join(name, source)
        if isinstance(line, ExternKernel):
            self.written_by_ops.update(found.writes)
            if line.op not in FIXED_WRITERS:
                self.resizable.update(found.writes)
        if is_stranger(line):
            self.seen_by_strangers.update(found.touched)

    def _join(self, name: str, source: str) -> None:
        self._parent[self.root(name)] = self.root(source)

    def root(self, name: str) -> str:
        """The same name for all names of a storage."""
        while (parent := self._parent.get(name, name)) != name:
            self._parent[name] = self._parent.get(parent, parent)
            name = parent
        return name

    def roots(self, names: set[str]) -> frozenset[str]:
        """The storages that a set of names has."""
        return frozenset(map(self.root, names))

    def escaping(self) -> set[str]:
        """Names whose tensor object may get out of the program or to code that may keep it.

        A view made by a ``Reinterpret`` is an object of its own, so only what other lines return
        for it counts.
        """
        found: set[str] = set()
        todo = [*self.leaves, *self.seen_by_strangers]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(self.returned_for.get(name, ()))
        return found
