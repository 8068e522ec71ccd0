"""A machine that runs programs on made-up contents and watches the memory.

Contents are integers that say how they came about: a kernel's output is a hash of which line wrote
it and what it read, so two runs agree only if every read saw what it should. Storage that was freed
is poisoned; touching it is an error. The machine looks at the lines themselves, not at effects, and
shares no code with the planner.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    AssertLayout,
    BufferArg,
    BufferInput,
    BufferValue,
    Cond,
    ExternKernel,
    Free,
    KernelCall,
    KernelDefinition,
    Program,
    Region,
    Reinterpret,
    Relation,
    ResultBuffer,
    Reuse,
    Switch,
    regions_of,
)


@dataclass(eq=False)
class Memory:
    """A piece of memory: bytes, contents, whether it is still there and whose it is."""

    nbytes: int
    contents: int
    alive: bool = True
    is_ours: bool = True
    pool: Memory | None = None
    start: int = 0
    """Where in its pool it begins."""
    slices: list[Memory] = field(default_factory=list)
    """What was cut out of it, for a pool."""


@dataclass
class Machine:
    """What one run does to memory."""

    program: Program
    held: int = 0
    peak: int = 0
    calls: int = 0
    memories: dict[str, Memory] = field(default_factory=dict)

    def run(self) -> tuple[int, ...]:
        """The contents of the results; checks that nothing is left behind by a planned program."""
        for item in self.program.inputs:
            if isinstance(item, BufferInput):
                contents = hash((item.name, "input"))
                self.memories[item.name] = Memory(0, contents, is_ours=False)
        return tuple(self.read(name) for name in self.region(self.program.region))

    def region(self, region: Region) -> list[str]:
        for line in region.body:
            self.line(line)
        return [v.buffer for v in region.results if isinstance(v, BufferValue)]

    def line(self, line: object) -> None:  # noqa: C901 - one case a line
        match line:
            case Allocate():
                self.memories[line.out] = self.grab(line.out)
            case Free():
                self.drop(self.touch(line.buffer))
            case AllocatePool():
                self.memories[line.out] = self.grab(line.out)
            case AllocateFromPool():
                self.memories[line.out] = self.cut(line)
            case Reuse():
                self.memories[line.out] = self.take(line)
            case Reinterpret():
                self.memories[line.out] = self.touch(line.source)
            case KernelCall():
                self.call(line.kernel, [a for a in line.args if isinstance(a, BufferArg)])
            case ExternKernel():
                self.extern(line)
            case Cond() | Switch():
                self.choose(line)
            case AssertLayout():
                self.touch(line.buffer)
            case KernelDefinition():
                pass
            case _:
                raise AssertionError(f"the machine has no {line}")

    def call(self, name: str, args: list[BufferArg]) -> None:
        self.calls += 1
        seen = tuple((a.buffer, self.read(a.buffer)) for a in args if a.access.reads)
        for position, arg in enumerate(a for a in args if a.access.writes):
            memory = self.touch(arg.buffer)
            layout = self.program.buffers[arg.buffer]
            whole = self.nbytes(arg.buffer) == memory.nbytes
            before = 0 if whole and not arg.access.reads else memory.contents
            memory.contents = hash((name, position, seen, before, str(layout)))

    def extern(self, line: ExternKernel) -> None:
        args = [a for a in line.args if isinstance(a, BufferArg)]
        self.call(line.op, args)
        contents = hash((line.op, tuple(self.read(a.buffer) for a in args)))
        for result in line.results:
            assert isinstance(result, ResultBuffer)
            if result.relation is Relation.FRESH:
                self.memories[result.out] = self.grab(result.out)
                self.memories[result.out].contents = contents
            else:
                # What may be a view is one here: the case that a plan can get wrong.
                self.memories[result.out] = self.touch(result.of[0])

    def choose(self, line: Cond | Switch) -> None:
        """Runs all branches, each on the operands as they were; keeps what the first gives."""
        given = [a.buffer for a in line.operands if isinstance(a, BufferArg)]
        contents = [self.read(name) for name in given]
        kept: list[int] = []
        for _, region in reversed(regions_of(line)):
            before = self.held
            for item, value in zip(region.params, contents, strict=True):
                assert isinstance(item, BufferInput)
                self.memories[item.name] = Memory(1 << 60, value, is_ours=False)
            kept = [self.read(name) for name in self.region(region)]
            self.held = before
        for result, value in zip(line.results, kept, strict=True):
            assert isinstance(result, ResultBuffer)
            self.memories[result.out] = self.grab(result.out)
            self.memories[result.out].contents = value

    def touch(self, name: str) -> Memory:
        memory = self.memories[name]
        assert memory.alive, f"%{name} is used after the end of its storage"
        return memory

    def read(self, name: str) -> int:
        return self.touch(name).contents

    def grab(self, name: str) -> Memory:
        memory = Memory(self.nbytes(name), 0)
        self.held += memory.nbytes
        self.peak = max(self.peak, self.held)
        return memory

    def take(self, line: Reuse) -> Memory:
        memory = self.touch(line.donor)
        assert self.nbytes(line.out) <= memory.nbytes
        fresh = dataclasses.replace(memory)
        memory.alive = False
        if memory.pool is not None:
            memory.pool.slices.append(fresh)
        return fresh

    def cut(self, line: AllocateFromPool) -> Memory:
        pool = self.touch(line.pool)
        assert isinstance(line.offset, int)
        new = Memory(self.nbytes(line.out), 0, pool=pool, start=line.offset)
        assert 0 <= new.start <= new.start + new.nbytes <= pool.nbytes
        for other in pool.slices:
            apart = other.start >= new.start + new.nbytes or new.start >= other.start + other.nbytes
            assert apart or not other.alive, f"%{line.out} is put onto what is alive"
        pool.slices.append(new)
        return new

    def drop(self, memory: Memory) -> None:
        memory.alive = False
        assert not any(piece.alive for piece in memory.slices), "a pool ends before its slices"
        if memory.is_ours and memory.pool is None:
            self.held -= memory.nbytes

    def nbytes(self, name: str) -> int:
        nbytes = self.program.buffers[name].nbytes
        assert isinstance(nbytes, int)
        return nbytes
