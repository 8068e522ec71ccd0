"""What calls read and write, as far as there is something to see.

Memory that nothing has written yet holds whatever was there before, another value in each run. A
call may be said to read it all the same: ``aten::zero_`` takes its argument as one that it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.args import BufferArg
from wrapper_ir.lines.effects import Effects, effects
from wrapper_ir.lines.kernels import ExternKernel, KernelCall
from wrapper_ir.lines.memory import Allocate, AllocateFromPool, AllocatePool, Reinterpret
from wrapper_ir.lines.walk import walk_regions

if TYPE_CHECKING:
    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.program import AnyLine, Program
    from wrapper_ir.lines.walk import Path

__all__ = ["Operands"]

#: Ops that change their first argument without looking at it.
_OVERWRITE: Final = (
    *("aten::bernoulli_", "aten::cauchy_", "aten::copy_", "aten::exponential_", "aten::fill_"),
    *("aten::geometric_", "aten::log_normal_", "aten::normal_", "aten::random_"),
    *("aten::uniform_", "aten::zero_"),
)


class Operands:
    """The buffers that each call of a program reads and writes.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._unwritten: dict[Path, set[str]] = {}
        for path, name, region in walk_regions(program):
            _Walk(program, self._unwritten).learn(region, path, name)

    def reads(self, path: Path, line: KernelCall | ExternKernel) -> list[str]:
        """What the call reads, without memory that nothing has written; no name twice."""
        names = effects(line, self._program).reads
        unseen = {*self._unwritten.get(path, ()), *_overwritten(line)}
        return list(dict.fromkeys(name for name in names if name not in unseen))

    def writes(self, line: KernelCall | ExternKernel) -> list[str]:
        """What the call writes and returns; no name twice."""
        found = effects(line, self._program)
        return list(dict.fromkeys((*found.writes, *found.defines)))


def _overwritten(line: KernelCall | ExternKernel) -> tuple[str, ...]:
    """What the call changes without looking at it."""
    if not isinstance(line, ExternKernel) or line.op.partition(".")[0] not in _OVERWRITE:
        return ()
    return tuple(arg.buffer for arg in line.args[:1] if isinstance(arg, BufferArg))


class _Walk:
    """One region, in order: which storages are yet to be written."""

    def __init__(self, program: Program, unwritten: dict[Path, set[str]]) -> None:
        self._program = program
        self._unwritten = unwritten
        self._storage: dict[str, str] = {}
        self._fresh: set[str] = set()

    def learn(self, region: Region, path: Path, name: str) -> None:
        for index, line in enumerate(region.body):
            found = effects(line, self._program)
            if isinstance(line, (KernelCall, ExternKernel)):
                unwritten = {read for read in found.reads if self._root(read) in self._fresh}
                if unwritten:
                    self._unwritten[path.then(name, index)] = unwritten
            self._note(line, found)

    def _note(self, line: AnyLine, found: Effects) -> None:
        for name, source, _ in found.aliases:
            self._storage[name] = self._root(source)
        for name, donor in zip(found.defines, found.takes, strict=False):
            self._storage[name] = self._root(donor)
        match line:
            case Allocate():
                if not line.zeroed:
                    self._fresh.add(line.out)
            case AllocateFromPool():
                self._storage[line.out] = line.out  # not the pool's: a slice is written for itself
                self._fresh.add(line.out)
            case Reinterpret() | AllocatePool():
                pass
            case _:
                self._fresh.difference_update(map(self._root, (*found.writes, *found.uses)))

    def _root(self, name: str) -> str:
        return self._storage.get(name, name)
