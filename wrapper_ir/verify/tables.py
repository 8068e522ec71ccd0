"""The program's own tables: names, layouts, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.verify import rules
from wrapper_ir.verify.kernels import check_name

if TYPE_CHECKING:
    from collections.abc import Container

    from wrapper_ir.verify.state import State


def check_tables(state: State) -> None:
    """Checks the tables of the program, before its lines are looked at."""
    program = state.program
    check_name(state, program.name, "program", state.here())
    _check_constants(state)
    for name in program.symbols:
        check_name(state, name, "symbol", state.here(f"symbols.{name}"))


def check_layouts_used(state: State, defined: Container[str]) -> None:
    """Checks that each layout belongs to something that is defined, once all lines are known."""
    for name in state.program.buffers:
        if name not in defined and name not in state.buffer_names:
            place = state.here(f"buffers.{name}")
            state.report(rules.LAYOUT_OF_NOTHING, place=place, name=name)


def _check_constants(state: State) -> None:
    constants = state.program.constants
    for name, constant in constants.items():
        place = state.here(f"constants.{name}")
        layout = state.program.buffers.get(name)
        if layout is not None and layout.symbols:
            symbols = ", ".join(sorted(layout.symbols))
            state.report(rules.SYMBOLIC_CONSTANT, place=place, name=name, symbols=symbols)
        tied = constant.tied_to
        if tied is None:
            continue
        holder = constants.get(tied)
        if holder is None:
            why = "is not a constant of the program"
        elif holder.tied_to is not None:
            why = "is itself tied to another" if tied != name else "is itself"
        else:
            continue
        state.report(rules.BAD_TIE, place=place, name=name, tied=tied, why=why)
