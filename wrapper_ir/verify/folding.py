"""Checks of folded constants, and of how the program that computes them fits the one around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines import BufferValue
from wrapper_ir.verify import rules
from wrapper_ir.verify.tables import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines import Program
    from wrapper_ir.lines.program import Constant
    from wrapper_ir.verify.state import State


def check_folding(state: State) -> None:
    """Check the folded constants of a program. Its folding program is checked by itself, too."""
    program, folding = state.program, state.program.folding
    if folding is None and not program.folded:
        return
    folded = frozenset(program.folded)
    for name, constant in program.constants.items():
        for why in _why_not_folded(folded, name, constant):
            state.report(rules.BAD_FOLDING, part=f"constants.{name}", what=f"%{name}", why=why)
    if folding is None:
        names = ", ".join(f"%{name}" for name in program.folded)
        why = f"has no folding program, which would compute {names}"
        state.report(rules.BAD_FOLDING, what="the program", why=why)
        return
    for why in (*_why_apart(program, folding), *_why_other_constants(program, folding)):
        state.report(rules.BAD_FOLDING, part="folding", what="the folding program", why=why)


def _why_not_folded(folded: frozenset[str], name: str, constant: Constant) -> Iterator[str]:
    """Yield what a constant must not be if it is folded."""
    is_folded, tied = name in folded, constant.tied_to
    if tied is not None and (is_folded or tied in folded):
        yield f"is tied to %{tied}, but one of them is folded"
    if is_folded and constant.mutable:
        yield "is folded, but mutable too"
    if is_folded and constant.packing is not None:
        yield "is folded, but packed too"


def _why_apart(program: Program, folding: Program) -> Iterator[str]:
    """Yield why a folding program cannot run by itself, or has the wrong results."""
    for what in ("inputs", "objects", "streams", "events", "mempools", "folding"):
        if getattr(folding, what):
            yield f"has {what}; it has only constants"
    if folding.stage is not program.stage:
        yield f"is {folding.stage.value}, but the program around it is {program.stage.value}"
    if len(folding.results) != len(program.folded):
        yield f"has {len(folding.results)} results for {len(program.folded)} folded constants"
    for position, (name, value) in enumerate(zip(program.folded, folding.results, strict=False)):
        if not isinstance(value, BufferValue):
            yield f"has a result {position} that is no buffer, for %{name}"
        elif value.buffer in folding.buffers and name in program.buffers:
            found, expected = folding.buffers[value.buffer], program.buffers[name]
            if differs := difference(found, expected):
                yield f"has a result {position}, for %{name}, {differs}"


def _why_other_constants(program: Program, folding: Program) -> Iterator[str]:
    """Yield why constants of a folding program are not constants of the program around it."""
    changing = {c.tied_to or n for n, c in program.constants.items() if c.mutable}
    for name, constant in folding.constants.items():
        source = program.folding_sources.get(name)
        if source is None:
            yield f"reads %{name}, {constant.qualified_name!r}, which the program does not have"
            continue
        found = program.constants[source]
        if found.is_derived or constant.is_derived:
            yield f"reads %{source}, which is made from others itself"
        if constant.mutable or (found.tied_to or source) in changing:
            yield f"reads %{source}, which calls change"
        if name in folding.buffers and source in program.buffers:
            differs = difference(folding.buffers[name], program.buffers[source])
            if differs or folding.buffers[name].offset != program.buffers[source].offset:
                yield f"reads %{name} {differs or 'with another offset'}"
