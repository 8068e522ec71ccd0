"""Library ops with given outputs: separate allocations, or the storage of a dying argument."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import BEFORE, Life, Liveness
from wrapper_ir.analysis.ops import OutOp, is_pointwise_out, out_op
from wrapper_ir.lines.traits import allocates_one, calls_op, checks_layout, ends
from wrapper_ir.lines.walk import Renaming

# A plan cannot place memory that an op allocates itself. If the op has an ``out=`` overload, the
# call becomes an allocation and a call of the overload. An op without one stays as it is, and so
# does an op whose result has a size that only the op knows, or is checked.


def plan_externs(program: ir.Program) -> ir.Program:
    """Replace each op that has an ``out=`` overload by an allocation and the overload.

    Results keep their names, layouts and order. If nothing changes, the same program is returned.
    """
    run = _Rewrite(program)
    body = run.body(program.region, frozenset())
    if not run.used:
        return program
    ops = [op for op in run.used.values() if op.name not in program.kernels]
    new = [ir.KernelDefinition(op.name, (), ir.TorchOp(op.schema)) for op in ops]
    return program.replace(body=(*new, *body))


class _Rewrite:
    """The state of one run over a program."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.used: dict[str, OutOp] = {}

    def body(self, region: ir.Region, bound: frozenset[str]) -> tuple[ir.AnyLine, ...]:
        """Return the new lines of a region; ``bound`` are the symbols bound before it."""
        seen = set(bound)
        seen |= {item.symbol for item in region.params if isinstance(item, ir.ScalarInput)}
        lines: list[ir.AnyLine] = []
        # An op resizes an output buffer that its result does not fit. What is checked might not.
        checked = {line.buffer for line in region.body if checks_layout(line)}
        for line in region.body:
            is_certain = checked.isdisjoint(ir.effects(line, self.program).defines)
            lines += self.line(line, seen) if is_certain else [line]
            seen |= set(ir.effects(line, self.program).defines_symbols)
        return tuple(lines)

    def line(self, line: ir.AnyLine, seen: set[str]) -> list[ir.AnyLine]:
        """Return the lines that replace a line, nested regions included."""
        if not calls_op(line):
            return [ir.map_regions(line, lambda inner: self.inner(inner, frozenset(seen)))]
        op, results = self.op(line), self.results(line, seen)
        if op is None or results is None or len(results) != len(op.outs):
            return [line]
        self.used[op.name] = op
        new = partial(ir.Allocate, stream=line.stream, mempool=line.mempool, origin=line.origin)
        allocations = [new(name) for name in results]
        args = [ir.BufferArg(name, ir.Access.WRITE) for name in results]
        kwargs = (*line.kwargs, *zip(op.outs, args, strict=True))
        call = dataclasses.replace(line, op=op.name, kwargs=kwargs, results=())
        return [*allocations, call]

    def inner(self, region: ir.Region, bound: frozenset[str]) -> ir.Region:
        """Return a region with its lines rewritten."""
        return dataclasses.replace(region, body=self.body(region, bound))

    def op(self, line: ir.ExternKernel) -> OutOp | None:
        """Return the overload to call; ``None`` if the program uses its name for something else."""
        kernels = self.program.kernels
        definition = kernels.get(line.op)
        if definition is None or not isinstance(definition.source, ir.TorchOp):
            return None
        op = out_op(definition.source.schema)
        given = None if op is None else kernels.get(op.name)
        if op is None or (given is not None and given.source != ir.TorchOp(op.schema)):
            return None
        return op

    def results(self, line: ir.ExternKernel, seen: set[str]) -> list[str] | None:
        """Return the names of all results in order; ``None`` unless fresh and of known size."""
        found: dict[int, str] = {}
        for result in line.results:
            if not isinstance(result, ir.ResultBuffer) or result.relation is not ir.Relation.FRESH:
                return None
            layout = self.program.buffers.get(result.out)
            if layout is None or not (layout.symbols <= seen and _is_plain(layout)):
                return None
            place = result.path[0] if result.path else 0
            if len(result.path) > 1 or not isinstance(place, int):
                return None
            found[place] = result.out
        is_whole = found.keys() == set(range(len(found)))
        return [found[n] for n in range(len(found))] if is_whole else None


def _is_plain(layout: ir.Layout) -> bool:
    """Return whether an allocation can have the layout: no offset, no shared elements."""
    return layout.offset == 0 and 0 not in layout.stride


# In-place reuse: a pointwise op may write over an argument that dies there.
#
# Front ends that fuse have done so already. For others, ``%o = allocate``, ``op(%a, out=%o)``,
# ``free %a`` becomes ``%o = reuse %a``, ``op(%o, out=%o)`` if %a covers all of its storage, has
# exactly %o's layout, is dead afterwards, and no other argument is a view of it. The pointwise ops
# are listed in :mod:`wrapper_ir.analysis.ops`. Nothing is known about C++ and Triton kernels, so
# they are left alone. Donated inputs can be such arguments too.


class _Change(NamedTuple):
    """A call that is to write over an argument."""

    donor: str
    out: str
    allocated: int
    freed: int | None


def reuse_in_place(program: ir.Program) -> ir.Program:
    """Let outputs of pointwise ops reuse the storage of arguments that die there.

    Expects explicit ends (:func:`~wrapper_ir.planning.insert_frees`).
    """
    region = _changed(program.region, program)
    return program if region.body == program.body else program.replace(body=region.body)


def _changed(region: ir.Region, program: ir.Program) -> ir.Region:
    inside = partial(_changed, program=program)
    body = tuple(ir.map_regions(line, inside) for line in region.body)
    inner = dataclasses.replace(region, body=body)
    changes = _Finder(inner, program).changes
    gone = {change.allocated for change in changes.values()}
    gone |= {change.freed for change in changes.values() if change.freed is not None}
    lines: list[ir.AnyLine] = []
    for position, line in enumerate(body):
        change = changes.get(position)
        if change is not None and calls_op(line):
            lines.append(ir.Reuse(change.out, change.donor, origin=line.origin))
            lines.append(_renamed(line, change.donor, change.out))
        elif position not in gone:
            lines.append(line)
    return dataclasses.replace(inner, body=tuple(lines))


class _Finder:
    """A search for calls that can be changed. An output may be the donor of a later call."""

    def __init__(self, region: ir.Region, program: ir.Program) -> None:
        self.region = region
        self.program = program
        self.liveness = Liveness(region, program)
        params = (p for p in region.params if isinstance(p, ir.BufferInput))
        self.donated = {param.name for param in params if param.donated}
        self.first_touch: dict[Life, int] = {}
        #: Changes by the position of the call.
        self.changes: dict[int, _Change] = {}
        for position, line in enumerate(region.body):
            if calls_op(line) and self.is_pointwise(line):
                self.look(position, line)
            for name in ir.effects(line, program).touched:
                for life in self.liveness.of(name):
                    self.first_touch.setdefault(life, position)

    def is_pointwise(self, line: ir.ExternKernel) -> bool:
        definition = self.program.kernels.get(line.op)
        source = None if definition is None else definition.source
        return isinstance(source, ir.TorchOp) and is_pointwise_out(source.schema)

    def look(self, position: int, line: ir.ExternKernel) -> None:
        """Record the change of a call, if there is one."""
        found = ir.effects(line)
        if len(found.writes) != 1 or found.writes[0] in found.reads or _nests(line):
            return
        out, read = found.writes[0], found.reads
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
        """Return whether an output is a plain allocation that has not been touched yet."""
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
        if old.place != new.place:
            return False
        if (old.stream, old.mempool) != (new.stream, new.mempool):
            return False
        if len(old.streams) > 1:  # the order of lines is not theirs
            return False
        if old.end is not None and not ends(self.region.body[old.end]):
            return False
        return all(name == donor or old not in self.liveness.of(name) for name in read)


def _nests(line: ir.ExternKernel) -> bool:
    return any(isinstance(v, ir.ListArg) for v in (*line.args, *(v for _, v in line.kwargs)))


def _renamed(line: ir.ExternKernel, old: str, new: str) -> ir.ExternKernel:
    """Return the call with one buffer in place of another."""
    renaming = Renaming(lambda name: new if name == old else name, str, str)
    return renaming.value(line)
