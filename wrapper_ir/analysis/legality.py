"""What of a program a target cannot render, by what it declares to be legal.

The same predicates tell the pass ``legalise`` what to lower, and an emitter what to reject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from wrapper_ir.analysis.collectives import begins_work
from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.analysis.ops import PRODUCTS, reads_otherwise
from wrapper_ir.lines import traits
from wrapper_ir.lines.args import BufferArg, BufferValue, buffers_in
from wrapper_ir.lines.control import BufferInput, Region, While
from wrapper_ir.lines.effects import effects, handed_over
from wrapper_ir.lines.layout import DType, Layout, LayoutKind
from wrapper_ir.lines.memory import USUAL, AllocateFromPool, Place, Reuse
from wrapper_ir.lines.walk import Path, walk_regions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.lines.program import AnyLine, Program
    from wrapper_ir.options.declared import Legal


# The memory behind names.


class Memory(NamedTuple):
    """The memory that a name is a view of.

    Attributes:
        owner: The name that owns it now.
        dtype: The element type that it was made with.
        is_whole: True if the name is its own, in the layout that it was made with.
        place: The memory of the device that it was allocated in.
        stream: The stream that it was allocated on.
        mempool: The memory pool that it was allocated from.
    """

    owner: str
    dtype: DType
    is_whole: bool
    place: Place = USUAL
    stream: int = 0
    mempool: int = 0


class Memories:
    """The memory behind each name of a region, learnt line by line.

    A result that conjugates or negates the memory of an argument counts as memory of its own, and
    so does one that may or may not be a view.
    """

    def __init__(self, region: Region, program: Program) -> None:
        self._program = program
        self._found = {
            name: Memory(name, program.layout(name).dtype, is_whole=True)
            for name in (
                *(each.name for each in region.params if isinstance(each, BufferInput)),
                *program.constants,
            )
        }

    def of(self, name: str) -> Memory:
        """Return the memory of a name that a line before has defined."""
        return self._found[name]

    def learn(self, line: AnyLine) -> None:
        """Note what a line defines."""
        found = effects(line, self._program)
        sources: dict[str, list[str]] = {}
        for alias in found.aliases:
            sources.setdefault(alias.name, []).append("" if alias.may else alias.source)
        for name in found.defines:
            own = Memory(name, self._program.layout(name).dtype, is_whole=False)
            source = sources.get(name, ())
            if traits.retakes(line):
                self._found[name] = self._retaken(line)
            elif traits.is_slice(line):
                self._found[name] = self._found[line.pool]._replace(owner=name, is_whole=False)
            elif traits.allocates(line):
                stream, mempool = (
                    (line.stream, line.mempool) if traits.allocates_one(line) else (0, 0)
                )
                self._found[name] = Memory(
                    name, own.dtype, is_whole=True, place=line.place, stream=stream, mempool=mempool
                )
            elif len(source) == 1 and source[0] and not reads_otherwise(line):
                self._found[name] = self._found[source[0]]._replace(is_whole=False)
            else:
                self._found[name] = own

    def _retaken(self, line: Reuse) -> Memory:
        old, new = self._program.layout(line.donor), self._program.layout(line.out)
        memory = self._found[line.donor]
        return memory._replace(owner=line.out, is_whole=memory.is_whole and old == new)


# Legality.


_LAYING_OUT: Final = "aten::copy_"
"""The op that leaves a buffer in its layout, whatever that is."""

AS_ANOTHER_TYPE: Final = "as another type than its memory's"
WITH_GAPS: Final = "as a whole, which is not provably without gaps"


def is_mixed(line: AnyLine, program: Program) -> TypeGuard[AllocateFromPool]:
    """Return whether a line cuts a slice of another element type than its pool's."""
    if not traits.is_slice(line):
        return False
    return program.layout(line.out).dtype is not program.layout(line.pool).dtype


def is_retyped(line: AnyLine, program: Program, memories: Memories) -> TypeGuard[Reuse]:
    """Return whether a line reuses memory as another element type than the memory's."""
    if not traits.retakes(line):
        return False
    return program.layout(line.out).dtype is not memories.of(line.donor).dtype


def illegal_writes(
    line: AnyLine, program: Program, memories: Memories, legal: Legal
) -> dict[str, str]:
    """Return the buffers that a call may not write like that, with the reasons.

    A line whose work goes on after it is legal. A copy would be copied back too early, and nobody
    makes such ops functional.
    """
    if begins_work(line) or handed_over(traits.op_of(line)) is not None:
        return {}
    found: dict[str, str] = {}
    for arg in _written(line):
        layout, memory = program.layout(arg.buffer), memories.of(arg.buffer)
        if layout.kind is not LayoutKind.STRIDED:
            continue
        if layout.dtype is not memory.dtype:
            if not _may_retype(line, program, legal):
                found[arg.buffer] = AS_ANOTHER_TYPE
        elif not legal.written_gaps and memory.is_whole and _may_have_gaps(line, layout):
            found[arg.buffer] = WITH_GAPS
    return found


def _written(line: AnyLine) -> Iterator[BufferArg]:
    """Yield the arguments that a call of a kernel or op writes."""
    if traits.calls_op(line):
        args = (*line.args, *(value for _, value in line.kwargs))
    elif traits.calls_kernel(line):
        args = line.args
    else:
        return
    yield from (arg for arg in buffers_in(args) if arg.access.writes)


def _may_retype(line: AnyLine, program: Program, legal: Legal) -> bool:
    if legal.retyped_writes == "kernels" and traits.calls_kernel(line):
        language = program.kernels[line.kernel].source.language
        return language is None or not language.has_grid
    return legal.retyped_writes == "all"


def _may_have_gaps(line: AnyLine, layout: Layout) -> bool:
    if not traits.calls_op(line) or line.op == _LAYING_OUT or layout.extent == layout.numel:
        return False
    return not (line.op in PRODUCTS and layout.is_contiguous)


def illegal(program: Program, legal: Legal) -> Iterator[tuple[Path, AnyLine, str]]:
    """Yield the lines that are not legal, with their paths and the reasons."""
    for holder, name, region in walk_regions(program):
        memories = Memories(region, program)
        has_loops = not legal.shared_loops and any(map(traits.loops, region.body))
        lives = Liveness(region, program) if has_loops else None
        for index, line in enumerate(region.body):
            for reason in _reasons(line, program, memories, legal):
                yield holder.then(name, index), line, reason
            if (
                lives is not None
                and traits.loops(line)
                and shares(line, index, region, lives, program)
            ):
                yield holder.then(name, index), line, "what it carries shares memory"
            memories.learn(line)


def _reasons(line: AnyLine, program: Program, memories: Memories, legal: Legal) -> Iterator[str]:
    if not legal.mixed_pools and is_mixed(line, program):
        yield f"'{line.out}' has another type than its pool '{line.pool}'"
    if not legal.retyped_reuse and is_retyped(line, program, memories):
        yield f"'{line.donor}' is reused {AS_ANOTHER_TYPE}"
    for name, why in illegal_writes(line, program, memories, legal).items():
        yield f"it writes '{name}' {why}"


# Which loops must run in the memory that they carry, and which of the others share some.


def is_told_apart(
    line: While, position: int, region: Region, lives: Liveness, program: Program
) -> bool:
    """Return whether a write tells what a loop carries from a copy of it.

    Either the loop writes it, or a later line writes memory that a result may share with it.
    """
    written = _lives(
        lives, (n for each in region.body[position:] for n in effects(each, program).writes)
    )
    found = effects(line, program)
    held = _lives(lives, (arg.buffer for arg in line.carried if isinstance(arg, BufferArg)))
    shared = _lives(lives, (alias.name for alias in found.aliases))
    return not held.isdisjoint(_lives(lives, found.writes)) or not shared.isdisjoint(written)


def shares(line: While, position: int, region: Region, lives: Liveness, program: Program) -> bool:
    """Return whether a loop shares memory although copies of it would do. Arguments: as above."""
    if not shared_carried(line, lives, program) and not handed_on(line, program):
        return False
    return not is_told_apart(line, position, region, lives, program)


def _lives(lives: Liveness, names: Iterable[str]) -> set[Life]:
    return {life for name in names for life in lives.of(name)}


def shared_carried(line: While, lives: Liveness, program: Program) -> list[int]:
    """Return the positions of what a loop carries in the same memory as another operand."""
    taken = [arg.buffer for arg in line.captured if isinstance(arg, BufferArg)]
    for _, region in traits.regions_of(line):
        inner = (effects(each, program) for each in traits.lines_in(region.body))
        taken += [name for found in inner for name in found.touched if name in program.constants]
    owners = _memory(lives, taken)
    positions = []
    for position, arg in enumerate(line.carried):
        if isinstance(arg, BufferArg):
            memory = _memory(lives, [arg.buffer])
            if not memory.isdisjoint(owners):
                positions.append(position)
            owners |= memory
    return positions


def _memory(lives: Liveness, names: Iterable[str]) -> set[Life]:
    """Return the storages, pools for their slices, that names may be views of."""
    return {(life.pool or life).first for life in _lives(lives, names)}


def handed_on(line: While, program: Program) -> list[int]:
    """Return the positions of results of a loop's body that are its parameters or constants."""
    given = {each.name for each in line.body.params if isinstance(each, BufferInput)}
    return [
        position
        for position, value in enumerate(line.body.results)
        if isinstance(value, BufferValue)
        and (value.buffer in given or value.buffer in program.constants)
    ]
