"""Complex inputs whose memory lines read as it is, so that it has to hold their values.

A tensor may conjugate or negate its memory lazily: it has a flag, and library ops heed the flag.
Kernels do not, and neither does a view as another type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.ops import PRODUCTS, reads_otherwise
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.traits import calls_kernel, lines_in, op_of, regions_of

if TYPE_CHECKING:
    from wrapper_ir.lines.effects import Effects
    from wrapper_ir.lines.program import AnyLine, Program


def stored_inputs(program: Program) -> frozenset[str]:
    """Return the complex inputs that may neither be conjugated nor negated lazily.

    A line reads their memory as it is, under whichever name that no op has conjugated or negated.
    Real inputs, which only ``x.conj().imag`` and the like negate, may never be.
    """
    names = [item.name for item in program.inputs if isinstance(item, BufferInput)]
    owners = {name: name for name in names if program.layout(name).dtype.is_complex}
    stored: set[str] = set()
    for line in program.body if owners else ():
        found = effects(line, program)
        stored.update(owners[n] for n in _read_as_stored(line, found, program) if n in owners)
        if not reads_otherwise(line):
            owners.update((name, owners[of]) for name, of, _ in found.aliases if of in owners)
    return frozenset(stored)


def _read_as_stored(line: AnyLine, found: Effects, program: Program) -> list[str]:
    """Return the buffers whose memory a line reads or writes as it is."""
    inner = [each for _, region in regions_of(line) for each in lines_in(region.body)]
    if any(_read_as_stored(each, effects(each, program), program) for each in inner):
        return found.touched
    if calls_kernel(line) or op_of(line) in PRODUCTS:
        return [*found.reads, *found.writes]
    if found.takes:
        return found.takes
    return [
        source
        for name, source, _ in (() if reads_otherwise(line) else found.aliases)
        if program.layout(name).dtype is not program.layout(source).dtype
    ]
