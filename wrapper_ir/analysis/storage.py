"""The storage map of a program: who shares storage, and what happens to each, learnt in one walk.

Storages are the lives of :class:`~wrapper_ir.analysis.liveness.Liveness`, asked by the names that
may be views of them. What concerns one name rather than its storage stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.analysis.ops import FIXED_WRITERS, escapes_to
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.base import Role
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.traits import calls_op, is_slice, own_roles

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.effects import Effects
    from wrapper_ir.lines.program import AnyLine, Program


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
