"""In-place reuse: an op that works element by element may write where a dying argument lies.

Front ends that fuse have done so already. For others: ``%o = allocate``, ``op(%a, out=%o)``,
``free %a`` becomes ``%o = reuse %a``, ``op(%o, out=%o)``, if %a is all of its storage, has %o's
layout exactly and is not needed afterwards, and no other argument is a view of it. Which ops may is
data (:mod:`wrapper_ir.analysis.ops`); kernels in C++ or Triton say nothing of themselves and
are left alone. Donated inputs can be such arguments too.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from wrapper_ir.analysis.liveness import BEFORE, Liveness
from wrapper_ir.analysis.ops import is_pointwise_out
from wrapper_ir.lines import (
    Access,
    BufferArg,
    BufferInput,
    ExternKernel,
    ListArg,
    Reuse,
    TorchOp,
    effects,
    map_regions,
)
from wrapper_ir.lines.traits import allocates_one, calls_op, ends

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines import AnyLine, Arg, NamedArg, Program, Region


class _Change(NamedTuple):
    """A call that is to write where an argument lies."""

    donor: str
    out: str
    allocated: int
    freed: int | None


def reuse_in_place(program: Program) -> Program:
    """The program with outputs of element-wise ops put where arguments that die there lie.

    Expects explicit ends (:func:`~wrapper_ir.planning.insert_frees`).
    """
    region = _changed(program.region, program)
    return program if region.body == program.body else program.replace(body=region.body)


def _changed(region: Region, program: Program) -> Region:
    body = tuple(map_regions(line, lambda inner: _changed(inner, program)) for line in region.body)
    inner = dataclasses.replace(region, body=body)
    changes = _Finder(inner, program).changes
    gone = {change.allocated for change in changes.values()}
    gone |= {change.freed for change in changes.values() if change.freed is not None}
    lines: list[AnyLine] = []
    for position, line in enumerate(body):
        change = changes.get(position)
        if change is not None and calls_op(line):
            lines.append(Reuse(change.out, change.donor, origin=line.origin))
            lines.append(_renamed(line, change.donor, change.out))
        elif position not in gone:
            lines.append(line)
    return dataclasses.replace(inner, body=tuple(lines))


class _Finder:
    """Looks for calls that can be changed; an output may be the donor of a later one."""

    def __init__(self, region: Region, program: Program) -> None:
        self.region = region
        self.program = program
        self.liveness = Liveness(region, program)
        self.donated = {p.name for p in region.params if isinstance(p, BufferInput) and p.donated}
        self.first_touch: dict[Life, int] = {}
        #: Changes by the position of the call.
        self.changes: dict[int, _Change] = {}
        for position, line in enumerate(region.body):
            if calls_op(line) and self.is_pointwise(line):
                self.look(position, line)
            for name in effects(line, program).touched:
                for life in self.liveness.of(name):
                    self.first_touch.setdefault(life, position)

    def is_pointwise(self, line: ExternKernel) -> bool:
        definition = self.program.kernels.get(line.op)
        source = None if definition is None else definition.source
        return isinstance(source, TorchOp) and is_pointwise_out(source.schema)

    def look(self, position: int, line: ExternKernel) -> None:
        """Notes a change of the call, if there is one."""
        written = [v for _, v in line.kwargs if isinstance(v, BufferArg) and v.access.writes]
        read = [name for v in (*line.args, *(v for _, v in line.kwargs)) for name in _read(v)]
        if len(written) != 1 or written[0].access is not Access.WRITE or _nests(line):
            return
        out = written[0].buffer
        life = self.only_life(out)
        if life is None or not self.is_new(life, out):
            return
        for donor in read:
            old = self.only_life(donor)
            if old is not None and self.gives(old, donor, out, position, read):
                self.changes[position] = _Change(donor, out, life.start, old.end)
                return

    def only_life(self, name: str) -> Life | None:
        lives = self.liveness.of(name)
        return lives[0] if len(lives) == 1 else None

    def is_new(self, life: Life, out: str) -> bool:
        """Return whether an output is a plain allocation that nothing has touched yet."""
        line = self.region.body[life.start] if life.start != BEFORE else None
        fresh = allocates_one(line) and line.out == out and not line.zeroed
        return fresh and life not in self.first_touch

    def gives(self, old: Life, donor: str, out: str, position: int, read: list[str]) -> bool:
        """Return whether an argument's storage ends with the call and fits the output exactly."""
        layouts = self.program.buffers
        ours = (old.is_owned and old.end is not None) or donor in self.donated
        if not ours or old.is_held or old.owner != donor or old.leaves or old.was_taken:
            return False
        if old.last_use != position or layouts.get(donor) != layouts.get(out):
            return False
        if old.is_pool or old.pool is not None:  # a slice has to end before its pool
            return False
        new = self.liveness.of(out)[0]
        if (old.memory, old.stream, old.mempool) != (new.memory, new.stream, new.mempool):
            return False
        if len(old.streams) > 1:  # the order of lines is not theirs
            return False
        if old.end is not None and not ends(self.region.body[old.end]):
            return False
        return all(name == donor or old not in self.liveness.of(name) for name in read)


def _read(value: Arg) -> tuple[str, ...]:
    return (value.buffer,) if isinstance(value, BufferArg) and not value.access.writes else ()


def _nests(line: ExternKernel) -> bool:
    return any(isinstance(v, ListArg) for v in (*line.args, *(v for _, v in line.kwargs)))


def _renamed(line: ExternKernel, old: str, new: str) -> ExternKernel:
    """A call with one buffer in place of another."""

    def arg(value: Arg) -> Arg:
        if isinstance(value, BufferArg) and value.buffer == old:
            return dataclasses.replace(value, buffer=new)
        return value

    args = tuple(arg(value) for value in line.args)
    kwargs: tuple[NamedArg, ...] = tuple((name, arg(value)) for name, value in line.kwargs)
    return dataclasses.replace(line, args=args, kwargs=kwargs)
