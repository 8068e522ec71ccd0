"""What calls read and write, as far as there is something to see.

Memory that nothing has written yet holds whatever was there before, another value in each run. A
call may be said to read it all the same: ``aten::zero_`` takes its argument as one that it changes,
and a kernel that changes a few elements of a result may also be the one that completes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.debug_printer.written import Written
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
        self._unseen: dict[tuple[Path, str], set[str]] = {}
        for path, name, region in walk_regions(program):
            _Walk(program, self._unseen).learn(region, path, name)

    def reads(self, path: Path, line: KernelCall | ExternKernel) -> list[str]:
        """What the call reads, without memory that nothing has written; no name twice."""
        names = effects(line, self._program).reads
        unseen = {*self._unseen.get((path, "before"), ()), *_overwritten(line)}
        return list(dict.fromkeys(name for name in names if name not in unseen))

    def writes(self, path: Path, line: KernelCall | ExternKernel) -> list[str]:
        """What the call writes and returns, as far as it is written by then; no name twice."""
        unseen = self._unseen.get((path, "after"), ())
        names = effects(line, self._program).written
        return [name for name in names if name not in unseen]


def _overwritten(line: KernelCall | ExternKernel) -> tuple[str, ...]:
    """What the call changes without looking at it."""
    if not isinstance(line, ExternKernel) or line.op.partition(".")[0] not in _OVERWRITE:
        return ()
    return tuple(arg.buffer for arg in line.args[:1] if isinstance(arg, BufferArg))


class _Walk:
    """One region, in order: what is yet to be written of each storage."""

    def __init__(self, program: Program, unseen: dict[tuple[Path, str], set[str]]) -> None:
        self._program = program
        self._unseen = unseen
        self._storage: dict[str, str] = {}
        self._written: dict[str, Written] = {}
        """Of storages that are new in this region; all others are taken to be written."""

    def learn(self, region: Region, path: Path, name: str) -> None:
        """Note for each call of a region what of its operands is not written."""
        for index, line in enumerate(region.body):
            found = effects(line, self._program)
            at = path.then(name, index)
            is_call = isinstance(line, (KernelCall, ExternKernel))
            if is_call:
                self._note(at, "before", found.reads)
            self._follow(line, found)
            if is_call:
                self._note(at, "after", found.writes)

    def _note(self, path: Path, when: str, names: list[str]) -> None:
        unseen = {name for name in names if not self._is_written(name)}
        if unseen:
            self._unseen[path, when] = unseen

    def _is_written(self, name: str) -> bool:
        written = self._written.get(self._root(name))
        return written is None or written.covers(self._program.layout(name))

    def _follow(self, line: AnyLine, found: Effects) -> None:
        for name, source, _ in found.aliases:
            self._storage[name] = self._root(source)
        for name, donor in zip(found.defines, found.takes, strict=False):
            self._storage[name] = self._root(donor)
        match line:
            case Allocate():
                layout = self._program.layout(line.out)
                self._written[line.out] = Written(layout, all_=line.zeroed)
            case AllocateFromPool():
                self._storage.pop(line.out, None)  # a slice is written for itself
                self._written[line.out] = Written(self._program.layout(line.out))
            case Reinterpret() | AllocatePool():
                pass
            case KernelCall() | ExternKernel():
                self._follow_writes(line, found)
            case _:
                for name in (*found.writes, *found.uses):
                    self._written.pop(self._root(name), None)

    def _follow_writes(self, line: KernelCall | ExternKernel, found: Effects) -> None:
        """What is read and written must be there already, unless nothing is: then it is filled."""
        filled = _overwritten(line)
        for name in found.writes:
            written = self._written.get(self._root(name))
            if written is None:
                continue
            if name not in found.reads or name in filled or written.nothing:
                written.write(self._program.layout(name))

    def _root(self, name: str) -> str:
        return self._storage.get(name, name)
