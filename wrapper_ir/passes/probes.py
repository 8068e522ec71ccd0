"""Probes: the pass that inserts them, and fills new memory; the function that removes them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.build.rewriting import Draft
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.traits import allocates_one, is_slice, retakes, shows
from wrapper_ir.lines.walk import rewrite_paths
from wrapper_ir.passes.printer import DebugPrinter
from wrapper_ir.passes.probed import Call, Operands, matches, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


# Poison new memory, so that a read before the first write becomes visible.
#
# A kernel that leaves part of its result unwritten, or accumulates into uninitialized memory, works
# by luck as long as the memory happens to hold zeros. With NaN in that memory its result is NaN;
# with different values in two runs its results differ.

_FILL: Final = "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"

#: Element types that every device can fill; for integers, with their size in bytes.
_FLOATS: Final = ("f64", "f32", "f16", "bf16", "c64", "c128")
_INTEGERS: Final = {"i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1}


def poison(program: ir.Program, number: float = math.nan) -> ir.Program:
    """Fill every buffer that a planned program allocates, before its first write.

    The results of a correct program do not change, since it never reads uninitialized memory.

    Args:
        program: The planned program. Its probes keep their labels.
        number: The fill value of floating-point memory. Integer memory gets a large value: one if
            ``number`` is NaN, a different one otherwise.

    Returns:
        The program with calls to ``aten::fill_`` inserted.
    """
    draft = Draft(program)
    return draft.rewritten(lambda region: _filled(region, draft, number))


def _filled(region: ir.Region, draft: Draft, number: float) -> Iterator[ir.AnyLine]:
    for index, line in enumerate(region.body):
        yield line
        for name in _new_memory(line, region.body, index, draft.program):
            layout = draft.layout(name)
            value = _value(layout.dtype, number)
            if value is not None:
                args = (ir.BufferArg(name, ir.Access.READ_WRITE), ir.ScalarArg(value))
                yield draft.call(_FILL, args, device=layout.device)


def _new_memory(
    line: ir.AnyLine, body: tuple[ir.AnyLine, ...], index: int, program: ir.Program
) -> list[str]:
    """Return the buffers that a line defines over uninitialized memory."""
    defines = ir.effects(line, program).defines
    if retakes(line):
        return [name for name in defines if not _is_read_first(name, body, index, program)]
    is_unset = allocates_one(line) and not line.zeroed
    return defines if is_unset or is_slice(line) else []


def _is_read_first(
    name: str, body: tuple[ir.AnyLine, ...], index: int, program: ir.Program
) -> bool:
    """Return whether a buffer is read before it is written, so that its contents matter."""
    names = {name}
    for line in itertools.islice(body, index + 1, None):
        line_effects = ir.effects(line, program)
        names |= {alias.name for alias in line_effects.aliases if alias.source in names}
        if names & {*line_effects.reads, *line_effects.takes}:
            return True
        if names & set(line_effects.writes):
            return False
        if names & set(line_effects.uses) and not line_effects.aliases:
            return True  # a region may read it
    return True


def _value(dtype: ir.DType, number: float) -> ir.Scalar | None:
    short = dtype.short
    if short in _FLOATS:
        return number
    if short in _INTEGERS:
        bits = 8 * _INTEGERS[short] - 1
        return (1 << bits) - (3 if math.isnan(number) else 7)
    return not math.isnan(number) if short == "bool" else None


# Insert and remove probes.

#: Probes before and after a line.
Around: TypeAlias = tuple[list[ir.Probe], list[ir.Probe]]

_NONE: Final[Around] = ([], [])


def insert_probes(program: ir.Program, printer: DebugPrinter) -> ir.Program:
    """Insert probes around the calls that a debug printer selects.

    The probe before a call shows the buffers it reads and its scalar arguments; the probe after it
    shows the buffers it wrote. Uninitialized memory is never shown. Lifetimes, order and all other
    lines stay as they are: :func:`remove_probes` returns an equal program.

    Args:
        program: The program. Plan it first, since planning adds lines of its own.
        printer: The values to show, and the calls to show them at.

    Returns:
        The program with probes, or the same object if there are none to insert.

    Warns:
        NoCallMatchesWarning: The filter selects none of the program's calls.
    """
    as_program(program, "wir.insert_probes")
    given: object = printer
    if not isinstance(given, DebugPrinter):
        hint = "such as wir.DebugPrinter('print')"
        raise OptionValueError(option="printer", value=given, expected="a DebugPrinter", hint=hint)
    if not printer.probe_levels:
        return program
    maker = _Maker(program, printer)
    return insert_around(program, {c.path: maker.probes(c) for c in select(program, printer)})


def insert_around(program: ir.Program, probes: Mapping[ir.Path, Around]) -> ir.Program:
    """Insert probes before and after the lines at the given paths; without any, change nothing."""
    if not probes:
        return program

    def around(path: ir.Path, line: ir.AnyLine) -> Iterator[ir.AnyLine]:
        before, after = probes.get(path, _NONE)
        yield from before
        yield line
        yield from after

    return rewrite_paths(program, around)


def remove_probes(program: ir.Program) -> ir.Program:
    """Remove all probes from a program; return the same object if it has none."""
    body = ir.rewrite_lines(program.body, lambda line: () if shows(line) else (line,))
    return program if body == program.body else program.replace(body=body)


def with_debugging(program: ir.Program, printer: DebugPrinter | None) -> ir.Program:
    """Insert a debug printer's probes into a planned program, and poison it if the printer asks.

    Warns:
        NoCallMatchesWarning: The filter selects none of the program's calls.
    """
    if printer is None:
        return program
    probed = insert_probes(program, printer)
    return poison(probed) if printer.poison else probed


@dataclass(frozen=True, slots=True)
class InsertProbes:
    """``insert-probes`` puts a debug printer's probes around calls, and poisons new memory.

    In textual form it takes the debug printer's options: ``insert-probes{level=check}``.
    """

    name: ClassVar[str] = "insert-probes"

    printer: DebugPrinter = field(default_factory=DebugPrinter)
    """The values to show and where; its ``poison`` fills new memory with NaN."""

    def __call__(self, program: ir.Program) -> ir.Program:
        """Return the program with probes. Run it after planning, which adds lines of its own."""
        return with_debugging(program, self.printer)


class _Maker:
    """Builds the probes of calls."""

    def __init__(self, program: ir.Program, printer: DebugPrinter) -> None:
        self._program = program
        self._printer = printer
        self._operands = Operands(program)

    def probes(self, call: Call) -> Around:
        """Return the probes before and after a call."""
        operands = self._printer.operands
        reads = self._operands.reads(call.path, call.line) if "inputs" in operands else []
        writes = self._operands.writes(call.path, call.line) if "outputs" in operands else []
        scalars = scalars_of(call.line) if "scalars" in operands else ()
        before: list[ir.Probe] = []
        after: list[ir.Probe] = []
        for level in self._printer.probe_levels:
            phases = self._printer.phases(level)
            if "before" in phases:
                before.append(self._probe(level, call, ir.When.BEFORE, reads, scalars))
            if "after" in phases:
                after.append(self._probe(level, call, ir.When.AFTER, writes, ()))
        return before, after

    def _probe(
        self,
        level: ir.ProbeLevel,
        call: Call,
        when: ir.When,
        buffers: Iterable[str],
        scalars: Iterable[ir.Scalar],
    ) -> ir.Probe:
        if level is ir.ProbeLevel.NAMES:
            return ir.Probe(call.label, when, level, origin=call.line.origin)
        shown = tuple(name for name in buffers if self._is_shown(name))
        return ir.Probe(call.label, when, level, shown, tuple(scalars), origin=call.line.origin)

    def _is_shown(self, name: str) -> bool:
        layout = self._program.buffers.get(name)
        if layout is not None and layout.kind is not ir.LayoutKind.STRIDED:
            return False  # only ops and the device can read it
        qualified = self._program.qualified_names.get(name, name)
        return matches(self._printer.buffers, (name, qualified))


def scalars_of(line: ir.AnyLine) -> tuple[ir.Scalar, ...]:
    """Return the scalar arguments of a call, in order."""
    fields = (getattr(line, field.name) for field in dataclasses.fields(line))
    return tuple(number for value in fields for number in _numbers(value))


def _numbers(value: object) -> Iterator[ir.Scalar]:
    if isinstance(value, ir.ScalarArg):
        yield value.value
    items = value.items if isinstance(value, ir.ListArg) else value
    if isinstance(items, tuple):
        for item in items:
            yield from _numbers(item)
