"""Checks of the program's tables: names, constants and layouts, compared with each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import wrapper_ir.lines as ir
from wrapper_ir.analysis.devices import is_relative, mixed_with
from wrapper_ir.analysis.proof import end_of, same
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.expr import INT64_MAX
from wrapper_ir.lines.program import PACKING_OPS
from wrapper_ir.lines.traits import allocates_one, calls_kernel
from wrapper_ir.text.words import IDENTIFIER
from wrapper_ir.verify import rules

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from wrapper_ir.verify.state import Place, State


# Names and constants.


def check_name(state: State, name: str, what: str, place: Place | None = None) -> None:
    """Check that a name is an ASCII identifier."""
    if IDENTIFIER.fullmatch(name) is None:
        state.report(rules.BAD_NAME, place=place, name=name, what=what)


def check_tables(state: State) -> None:
    """Check the tables of the program, before its lines."""
    program = state.program
    check_name(state, program.name, "program", state.here())
    for name, constant in program.constants.items():
        place = state.here(f"constants.{name}")
        layout = program.buffers.get(name)
        if layout is not None and layout.symbols:
            symbols = ", ".join(sorted(layout.symbols))
            state.report(rules.SYMBOLIC_CONSTANT, place=place, name=name, symbols=symbols)
        why = _why_untied(state, name, constant.tied_to)
        if why:
            state.report(rules.BAD_TIE, place=place, name=name, tied=constant.tied_to, why=why)
    for name in program.symbols:
        check_name(state, name, "symbol", state.here(f"symbols.{name}"))
    _check_devices(state)
    if program.tangents and (why := _why_no_tangents(program)):
        state.report(rules.BAD_TANGENTS, part="tangents", tangents=program.tangents, why=why)


def _check_devices(state: State) -> None:
    """Check that no device is declared both by its number and as the current one."""
    for device in sorted(filter(is_relative, state.devices), key=str):
        check_device(state, device, state.here())


def check_device(state: State, device: ir.Device, place: Place | None = None) -> None:
    """Check a device against those that the program declares."""
    other = mixed_with(device, state.devices)
    if other is not None:
        state.report(rules.MIXED_DEVICES, place=place, device=device, other=other)


def _why_no_tangents(program: ir.Program) -> str:
    """Explain why a program's tangents are invalid; empty if they are valid."""
    tangents = program.tangents
    if program.role is not ir.GraphRole.BACKWARD:
        return "the program is not a backward"
    if min(tangents) < 0 or len(set(tangents)) < len(tangents):
        return "they are not distinct indices of results"
    last = program.inputs[-len(tangents) :]
    if len(last) < len(tangents) or not all(isinstance(each, ir.BufferInput) for each in last):
        return "as many of the last inputs are not tensors"
    return ""


def _why_untied(state: State, name: str, tied: str | None) -> str:
    """Explain why a constant cannot be tied; empty if it can, or is not tied."""
    if tied is None:
        return ""
    holder = state.program.constants.get(tied)
    if holder is None:
        return "is not a constant of the program"
    if holder.tied_to is None:
        return ""
    return "is itself tied to another" if tied != name else "is itself"


def check_layouts_used(state: State, defined: Container[str]) -> None:
    """Check that each layout belongs to a defined buffer, after all lines."""
    for name in state.program.buffers:
        if name not in defined and name not in state.names.buffers:
            state.report(rules.LAYOUT_OF_NOTHING, part=f"buffers.{name}", name=name)


# Layouts, and comparisons of two layouts.


def check_layout(state: State, name: str, layout: ir.Layout, place: Place) -> bool:
    """Check rank, signs and size of a layout. Return whether its extent is valid."""
    sizes, strides = layout.size, layout.stride
    if len(sizes) != len(strides):
        fault = partial(state.report, rules.RANKS_DIFFER, place=place, name=name)
        fault(sizes=len(sizes), strides=len(strides))
        return False
    sound = True
    for what, values in (("size", sizes), ("stride", strides), ("offset", (layout.offset,))):
        for value in values:
            if value < 0 if type(value) is int else state.facts.negative(value):
                sound = False
                state.report(rules.NEGATIVE, place=place, name=name, what=what, value=value)
    end = end_of(layout) if sound else 0
    if type(end) is int and end > INT64_MAX:
        state.report(rules.TOO_LARGE, place=place, name=name, nbytes=end)
        return False
    return sound


def same_device(a: ir.Device, b: ir.Device) -> bool:
    """Return whether two devices may be the same. Without an index it is the current device."""
    return a.type == b.type and (a.index == b.index or a.index is None or b.index is None)


def report_devices(state: State, name: str, own: ir.Layout, other: str, wanted: ir.Layout) -> None:
    """Report a buffer on another device than its storage."""
    fault = partial(state.report, rules.DEVICES_DIFFER, name=name, device=own.device)
    fault(other=f"%{other}", expected=wanted.device)


def check_alignment(state: State, name: str, layout: ir.Layout, apart: ir.Dim, source: str) -> None:
    """Check that the distance of a buffer from its source is a multiple of its item size."""
    itemsize = layout.dtype.itemsize
    if type(apart) is int and apart % itemsize:
        fault = partial(state.report, rules.MISALIGNED, name=name, source=source)
        fault(distance=apart, dtype=layout.dtype.short, itemsize=itemsize)


def difference(
    given: ir.Layout, expected: ir.Layout, is_known: Callable[[ir.Dim], bool] = lambda _: True
) -> str:
    """Describe how two layouts differ; empty if they do not.

    Offsets are ignored, as are strides of dimensions of size one and of empty buffers. Dims for
    which ``is_known`` is false are assumed equal.
    """
    if given.dtype is not expected.dtype:
        return f"{given.dtype.short} instead of {expected.dtype.short}"
    if not same_device(given.device, expected.device):
        return f"on {given.device} instead of {expected.device}"
    if given.rank != expected.rank:
        return f"of rank {given.rank} instead of {expected.rank}"
    pairs = (("size", given.size, expected.size), ("stride", given.stride, expected.stride))
    for what, ours, theirs in pairs:
        for position, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if what == "stride" and (
                given.size[position : position + 1] == (1,) or 0 in given.size
            ):
                continue
            if not same(a, b) and is_known(a) and is_known(b):
                return f"of {what} {_listed(ours)} instead of {_listed(theirs)}"
    return ""


def _listed(values: tuple[ir.Dim, ...]) -> str:
    return f"[{', '.join(map(str, values))}]"


# Buffers with special layouts: those that are not strided, and packed constants, whose format only
# a library knows.


class Opaque:
    """Checks of the uses of such buffers, which most programs do not have."""

    def __init__(self, state: State) -> None:
        program = state.program
        self.state = state
        kinds = {name: each.kind for name, each in program.buffers.items()}
        self.not_strided: set[str] = {
            n for n, kind in kinds.items() if kind is not ir.LayoutKind.STRIDED
        }
        constants = program.constants.items()
        self.packed: set[str] = {n for n, c in constants if c.kind is ir.ConstantKind.PACKED}

    def check_tables(self) -> None:
        """Check packed constants, then that inputs and constants are strided."""
        program = self.state.program
        for name, constant in program.constants.items():
            if constant.packing is not None:
                self._check_packing(name, constant)
            if name in self.packed and constant.mutable:
                self._report(name, "mutable too", f"constants.{name}")
            elif constant.tied_to is not None and self.packed & {name, constant.tied_to}:
                self._report(name, "tied to another constant", f"constants.{name}")
        inputs = [item.name for item in program.inputs if isinstance(item, ir.BufferInput)]
        for name in sorted(self.not_strided.intersection((*inputs, *program.constants))):
            self._report_kind(name, "inputs and constants must be strided")

    def _check_packing(self, name: str, constant: ir.Constant) -> None:
        """Check that a constant is packed by a packing op from immutable constants."""
        packing, constants = constant.packing, self.state.program.constants
        assert packing is not None
        faults = []
        if name not in self.packed:
            faults.append("its kind is not 'packed'")
        if packing.op not in PACKING_OPS:
            faults.append(f"by '{packing.op}', which is none of {', '.join(PACKING_OPS)}")
        if not packing.sources or not all(map(_is_number, packing.args)):
            faults.append("from something other than constants and numbers")
        if packing.position is not None and packing.position < 0:
            faults.append("at a negative position in a list")
        for source in packing.sources:
            found = constants.get(source)
            if found is None or source in self.packed or found.mutable:
                faults.append(f"from %{source}, which is not an immutable constant")
        for why in faults:
            self._report(name, why, f"constants.{name}")

    def check_line(self, line: ir.AnyLine, found: ir.Effects) -> None:
        """Check that a line may use the special buffers that it mentions."""
        if self.packed:
            mentioned = self.packed & {*found.touched, *found.peeks}
            if Trait.CALLS_OP in line.traits:
                changed = {*found.writes, *(alias.source for alias in found.aliases)}
                mentioned -= self.packed.intersection(found.reads) - changed
            for name in sorted(mentioned):
                why = f"'{line.mnemonic}' does not just pass it to a library op that reads it"
                self._report(name, why)
        if self.not_strided and Trait.ANY_KIND not in line.traits:
            mentioned = self.not_strided & {*found.defines, *found.touched, *found.peeks}
            for name in sorted(mentioned):
                is_opaque = self.state.program.buffers[name].is_opaque
                if not is_opaque or not self._takes_opaque(line):
                    self._report_kind(name, f"'{line.mnemonic}' needs strides")
                elif allocates_one(line) and not _is_plain(line):
                    self._report_kind(name, "it is zeroed, or in memory other than the default")

    def _takes_opaque(self, line: ir.AnyLine) -> bool:
        """Return whether a line accepts opaque buffers, for kernels in vendor languages only."""
        if not calls_kernel(line):
            return Trait.OPAQUE in line.traits
        kernel = self.state.program.kernels.get(line.kernel)
        return kernel is not None and isinstance(kernel.source, ir.DeviceKernel)

    def check_results(self) -> None:
        """Check that no region returns a packed constant."""
        for position, value in enumerate(self.state.frame.region.results):
            if isinstance(value, ir.BufferValue) and value.buffer in self.packed:
                self._report(value.buffer, "it is a result", f"results[{position}]")

    def _report(self, name: str, why: str, part: str = "") -> None:
        self.state.report(rules.PACKED_USE, part=part, name=name, why=why)

    def _report_kind(self, name: str, why: str) -> None:
        kind = self.state.program.buffers[name].kind.value
        self.state.report(rules.NOT_STRIDED, name=name, kind=kind, why=why)


def _is_plain(line: ir.Allocate) -> bool:
    """Return whether a line allocates default memory without contents."""
    return line.place == ir.USUAL and not line.zeroed


def _is_number(arg: ir.Arg) -> bool:
    match arg:
        case ir.BufferArg(access=ir.Access.READ) | ir.NoneArg():
            return True
        case ir.ScalarArg(value=value):
            return isinstance(value, (bool, int, float))
        case ir.ListArg(items=items):
            return all(isinstance(i, ir.ScalarArg) and type(i.value) is int for i in items)
        case _:
            return False


# Folded constants, and how the program that computes them fits the one around it.


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


def _why_not_folded(folded: frozenset[str], name: str, constant: ir.Constant) -> Iterator[str]:
    """Yield what a constant must not be if it is folded."""
    is_folded, tied = name in folded, constant.tied_to
    if tied is not None and (is_folded or tied in folded):
        yield f"is tied to %{tied}, but one of them is folded"
    if is_folded and constant.mutable:
        yield "is folded, but mutable too"
    if is_folded and constant.packing is not None:
        yield "is folded, but packed too"


def _why_apart(program: ir.Program, folding: ir.Program) -> Iterator[str]:
    """Yield why a folding program cannot run by itself, or has the wrong results."""
    for what in ("inputs", "objects", "streams", "events", "mempools", "folding"):
        if getattr(folding, what):
            yield f"has {what}; it has only constants"
    if folding.stage is not program.stage:
        yield f"is {folding.stage.value}, but the program around it is {program.stage.value}"
    if len(folding.results) != len(program.folded):
        yield f"has {len(folding.results)} results for {len(program.folded)} folded constants"
    for position, (name, value) in enumerate(zip(program.folded, folding.results, strict=False)):
        if not isinstance(value, ir.BufferValue):
            yield f"has a result {position} that is no buffer, for %{name}"
        elif value.buffer in folding.buffers and name in program.buffers:
            found, expected = folding.buffers[value.buffer], program.buffers[name]
            if differs := difference(found, expected):
                yield f"has a result {position}, for %{name}, {differs}"


def _why_other_constants(program: ir.Program, folding: ir.Program) -> Iterator[str]:
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
