"""Which loops must run in the memory that they carry, and which of the others share some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.args import BufferArg, BufferValue
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.traits import lines_in, regions_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.analysis.liveness import Life, Liveness
    from wrapper_ir.lines.control import Region, While
    from wrapper_ir.lines.program import Program


def is_told_apart(
    line: While, position: int, region: Region, lives: Liveness, program: Program
) -> bool:
    """Return whether a write tells what a loop carries from a copy of it.

    Either the loop writes it, or a later line writes memory that a result may share with it.

    Args:
        line: The loop.
        position: Its position in its region.
        region: The region.
        lives: The lives of the region.
        program: The program that contains it.
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
    for _, region in regions_of(line):
        inner = (effects(each, program) for each in lines_in(region.body))
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
