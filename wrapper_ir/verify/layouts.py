"""Checks of layouts by themselves, and of one layout against another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.proof import end_of, same
from wrapper_ir.lines import BufferInput, LayoutKind
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.expr import INT64_MAX
from wrapper_ir.verify import rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines import AnyLine, Device, Dim, Effects, Layout
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
