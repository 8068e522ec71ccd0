"""Inputs that a front end takes for separate tensors.

Exported graphs are functional: they know no two tensors that share memory. What a model does with
arguments that overlap, one of them written to, no such graph says. A program of one checks that
they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.liveness import mutated_inputs, storages_of
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import LayoutKind
from wrapper_ir.lines.symbols import AssertApart
from wrapper_ir.lines.traits import asserts, binds, checks_layout, computes, declares

if TYPE_CHECKING:
    from wrapper_ir.lines.program import AnyLine, Program


def with_apart_inputs(program: Program) -> Program:
    """Return the program with a check, if it writes to inputs, that these share no memory.

    It comes before everything that reads or writes a tensor. Other programs stay as they are.
    """
    storages = storages_of(program)
    names = [
        name for name in storages.touched_inputs if program.layout(name).kind is LayoutKind.STRIDED
    ]
    inputs = [program.inputs[position] for position in mutated_inputs(program)]
    changed = {item.name for item in inputs if isinstance(item, BufferInput)}
    written = tuple(name for name in names if name in changed)
    others = tuple(name for name in names if name not in written)
    if not written or len(names) < 2:
        return program
    at = next(
        (n for n, line in enumerate(program.body) if not _is_preamble(line)), len(program.body)
    )
    check = AssertApart(written, others)
    return program.replace(body=(*program.body[:at], check, *program.body[at:]))


def _is_preamble(line: AnyLine) -> bool:
    of_symbols = asserts(line) or computes(line) or (binds(line) and not effects(line).reads)
    return declares(line) or checks_layout(line) or of_symbols
