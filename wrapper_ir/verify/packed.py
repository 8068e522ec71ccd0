"""Packed constants: what may be done with a weight whose form only a library knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.args import Access, Arg, BufferArg, BufferValue, ListArg, NoneArg, ScalarArg
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.program import PACKING_OPS, AnyLine, Constant, ConstantKind
from wrapper_ir.verify import rules

if TYPE_CHECKING:
    from wrapper_ir.lines.effects import Effects
    from wrapper_ir.verify.state import State

__all__ = ["check_packed_line", "check_packed_results", "check_packed_table", "packed_constants"]


def packed_constants(state: State) -> frozenset[str]:
    """The names of the program's packed constants; of most programs there are none."""
    constants = state.program.constants
    return frozenset(n for n, c in constants.items() if c.kind is ConstantKind.PACKED)


def check_packed_table(state: State, packed: frozenset[str]) -> None:
    """Checks that packed constants stand alone and never change."""
    for name, constant in state.program.constants.items():
        if constant.packing is not None:
            _check_packing(state, name, constant, packed)
        if name in packed and constant.mutable:
            _report(state, name, "mutable too", f"constants.{name}")
        elif constant.tied_to is not None and packed & {name, constant.tied_to}:
            _report(state, name, "tied to another constant", f"constants.{name}")


def _check_packing(state: State, name: str, constant: Constant, packed: frozenset[str]) -> None:
    """Checks that a constant is packed by an op that packs, of constants that never change."""
    packing, constants = constant.packing, state.program.constants
    assert packing is not None
    place = f"constants.{name}"
    if name not in packed:
        state.report(
            rules.PACKED_USE, place=state.here(place), name=name, why="its kind is another"
        )
    if packing.op not in PACKING_OPS:
        _report(state, name, f"by '{packing.op}', which is none of {', '.join(PACKING_OPS)}", place)
    if not packing.sources or not all(map(_is_number, packing.args)):
        _report(state, name, "of something else than constants and numbers", place)
    if packing.position is not None and packing.position < 0:
        _report(state, name, "at a place before the first of a list", place)
    for source in packing.sources:
        found = constants.get(source)
        if found is None or source in packed or found.mutable:
            _report(state, name, f"of %{source}, which is no constant that stays as it is", place)


def _is_number(arg: Arg) -> bool:
    match arg:
        case BufferArg(access=Access.READ) | NoneArg():
            return True
        case ScalarArg(value=value):
            return isinstance(value, (bool, int, float))
        case ListArg(items=items):
            return all(isinstance(i, ScalarArg) and type(i.value) is int for i in items)
        case _:
            return False


def check_packed_line(state: State, line: AnyLine, found: Effects, packed: frozenset[str]) -> None:
    """Checks that a line leaves packed constants alone, or is an op that reads them."""
    if not packed:
        return
    mentioned = packed & {*found.touched, *found.peeks}
    read = packed.intersection(found.reads) if Trait.CALLS_OP in line.traits else frozenset()
    harmless = read - {*found.writes, *(alias.source for alias in found.aliases)}
    for name in sorted(mentioned - harmless):
        _report(state, name, f"'{line.mnemonic}' does more than read it by an op")


def check_packed_results(state: State, packed: frozenset[str]) -> None:
    """Checks that no region returns a packed constant."""
    for position, value in enumerate(state.frame.region.results):
        if isinstance(value, BufferValue) and value.buffer in packed:
            _report(state, value.buffer, "it is a result", f"results[{position}]")


def _report(state: State, name: str, why: str, part: str | None = None) -> None:
    place = None if part is None else state.here(part)
    state.report(rules.PACKED_USE, place=place, name=name, why=why)
