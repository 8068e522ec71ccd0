"""Checks of layouts by themselves, and of one layout against another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.proof import end_of, same
from wrapper_ir.lines import BufferInput, LayoutKind
from wrapper_ir.lines.args import Access, Arg, BufferArg, BufferValue, ListArg, NoneArg, ScalarArg
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.expr import INT64_MAX
from wrapper_ir.lines.program import PACKING_OPS, AnyLine, Constant, ConstantKind
from wrapper_ir.verify import rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines import Device, Dim, Effects, Layout
    from wrapper_ir.verify.state import Place, State


def check_layout(state: State, name: str, layout: Layout, place: Place) -> bool:
    """Checks ranks, signs and the number of bytes; whether the layout's extent can be computed."""
    if len(layout.size) != len(layout.stride):
        state.report(
            rules.RANKS_DIFFER,
            place=place,
            name=name,
            sizes=len(layout.size),
            strides=len(layout.stride),
        )
        return False
    sound = True
    for what, values in (
        ("size", layout.size),
        ("stride", layout.stride),
        ("offset", (layout.offset,)),
    ):
        for value in values:
            if value < 0 if type(value) is int else state.facts.negative(value):
                sound = False
                state.report(rules.NEGATIVE, place=place, name=name, what=what, value=value)
    end = end_of(layout) if sound else 0
    if type(end) is int and end > INT64_MAX:
        state.report(rules.TOO_LARGE, place=place, name=name, nbytes=end)
        return False
    return sound


def check_owner(state: State, name: str, layout: Layout, place: Place) -> None:
    """Checks that what owns its storage begins at its start."""
    if layout.offset != 0:
        state.report(rules.OWNER_OFFSET, place=place, name=name, offset=layout.offset)


def same_device(a: Device, b: Device) -> bool:
    """Return whether two devices may be the same: no index means the current one."""
    return a.type == b.type and (a.index == b.index or a.index is None or b.index is None)


def difference(
    given: Layout, expected: Layout, is_known: Callable[[Dim], bool] = lambda _: True
) -> str:
    """Describe how two layouts differ as values; empty if they do not. Offsets do not count.

    Strides of dimensions of size one and of buffers without elements do not count, and dims for
    which ``is_known`` says no are taken as equal.
    """
    if given.dtype is not expected.dtype:
        return f"{given.dtype.short} instead of {expected.dtype.short}"
    if not same_device(given.device, expected.device):
        return f"on {given.device} instead of {expected.device}"
    if given.rank != expected.rank:
        return f"of rank {given.rank} instead of {expected.rank}"
    for what, ours, theirs in (
        ("size", given.size, expected.size),
        ("stride", given.stride, expected.stride),
    ):
        for position, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if what == "stride" and (
                given.size[position : position + 1] == (1,) or 0 in given.size
            ):
                continue
            if not same(a, b) and is_known(a) and is_known(b):
                return f"of {what} {_listed(ours)} instead of {_listed(theirs)}"
    return ""


def _listed(values: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, values))}]"


def not_strided(state: State) -> frozenset[str]:
    """The buffers that keep their elements otherwise than at strides."""
    layouts = state.program.buffers.items()
    return frozenset(name for name, each in layouts if each.kind is not LayoutKind.STRIDED)


def check_kinds(state: State, line: AnyLine, found: Effects, names: frozenset[str]) -> None:
    """Checks that only what takes any tensor mentions a buffer that is not strided."""
    if not names or Trait.ANY_KIND in line.traits:
        return
    for name in sorted(names.intersection((*found.defines, *found.touched, *found.peeks))):
        _report_kind(state, name, f"'{line.mnemonic}' wants strides")


def check_kinds_of_inputs(state: State, names: frozenset[str]) -> None:
    """Checks that inputs and constants are strided."""
    inputs = [item.name for item in state.program.inputs if isinstance(item, BufferInput)]
    for name in sorted(names.intersection((*inputs, *state.program.constants))):
        _report_kind(state, name, "programs are given tensors with strides")


def _report_kind(state: State, name: str, why: str) -> None:
    kind = state.program.buffers[name].kind.value
    state.report(rules.NOT_STRIDED, name=name, kind=kind, why=why)


# Packed constants: what may be done with a weight whose form only a library knows.


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
