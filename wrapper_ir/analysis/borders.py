"""Inputs and results of calls and regions: memory that changes hands, what inputs may be, symbols.

A call lets go of inputs, and may put results into the caller's memory. Complex inputs whose memory
lines read as it is may not be conjugated lazily. States of random numbers may be on the host.
Regions use symbols from outside. Kernels may ask for addresses that are multiples of some bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from wrapper_ir.analysis.kept import source_of
from wrapper_ir.analysis.liveness import storages_of
from wrapper_ir.analysis.ops import PRODUCTS, may_drop, reads_otherwise, schema_of
from wrapper_ir.lines import traits
from wrapper_ir.lines.args import BufferArg, BufferValue, ResultBuffer
from wrapper_ir.lines.control import BufferInput, Region, RegionLine, ScalarInput
from wrapper_ir.lines.effects import Effects, effects
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.layout import CPU, Layout
from wrapper_ir.lines.memory import MemoryKind
from wrapper_ir.lines.program import AnyLine, Program, SymbolInfo, SymbolKind
from wrapper_ir.lines.walk import regions_of, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def spent_inputs(program: Program) -> dict[int, list[str]]:
    """Return the inputs to let go of before a line, by the line's position.

    A call may hold the last reference to an input: autograd hands over tensors that it saved. So
    the call lets go of each input before the first line after its last use that may allocate.
    Inputs that lines free or take over end there, and those that something else may still read,
    a result or work on another stream, last until the end of the call.
    """
    storages = storages_of(program)
    taking = [n for n, line in enumerate(program.body) if _may_allocate(line)]
    found: dict[int, list[str]] = {}
    for name in storages.touched_inputs:
        lives = storages.lives.of(name)
        if all(life.end is None and not (life.goes_out or any(life.streams)) for life in lives):
            next_one = bisect_right(taking, max(life.last_use for life in lives))
            if next_one < len(taking):
                found.setdefault(taking[next_one], []).append(name)
    return found


def alignments(program: Program) -> dict[str, int]:
    """Return the bytes of which each input's or constant's address must be a multiple, if any."""
    checks = (line for line in program.body if traits.checks_layout(line) and line.alignment)
    return {line.buffer: line.alignment for line in checks}


def realigned_inputs(program: Program) -> dict[int, int]:
    """Return the alignment, in bytes, of inputs that are copied elsewhere, by position."""
    inputs = enumerate(program.inputs)
    return {
        n: each.realigned for n, each in inputs if isinstance(each, BufferInput) and each.realigned
    }


def _may_allocate(line: AnyLine) -> bool:
    return traits.allocates(line) or traits.calls_op(line) or bool(regions_of(line))


def placed_results(program: Program) -> dict[str, int]:
    """Return the allocations that end up as results, with each result's position.

    If the caller provides memory for such a result, the allocation can be a view of that memory
    from the start. Allocation and result have the same dtype and the same bytes, without gaps; in
    between, the storage may have other views and names. Symbols of the result's layout are bound
    by then.
    """
    allocations = {line.out: line for line in program.body if traits.allocates_one(line)}
    views = {
        line.out: line for line in program.body if traits.is_view(line) or traits.retakes(line)
    }
    found: dict[str, int] = {}
    for position, value in enumerate(program.results):
        if not isinstance(value, BufferValue):
            continue
        name = value.buffer
        while name in views:
            name = source_of(views[name])
        line = allocations.get(name)
        if line is None or line.memory is not MemoryKind.DEFAULT:
            continue
        if line.space or program.layout(line.out).is_opaque:  # callers have no such memory
            continue
        if _is_whole(program.layout(value.buffer), program.layout(line.out)):
            found.setdefault(line.out, position)
    return found


def _is_whole(view: Layout, whole: Layout) -> bool:
    """Return whether two layouts cover every element of a storage once, at equal addresses."""
    return (
        view.dtype is whole.dtype
        and view.device == whole.device
        and view.offset == whole.offset == 0
        and view.numel == whole.numel
        and view.symbols <= whole.symbols
        and view.is_dense
        and whole.is_dense
    )


# Complex inputs whose memory lines read as it is, so that it has to hold their values.
#
# A tensor may conjugate or negate its memory lazily: it has a flag, and library ops heed the flag.
# Kernels do not, and neither does a view as another type.


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
    inner = [each for _, region in regions_of(line) for each in traits.lines_in(region.body)]
    if any(_read_as_stored(each, effects(each, program), program) for each in inner):
        return found.touched
    if traits.calls_kernel(line) or traits.op_of(line) in PRODUCTS:
        return [*found.reads, *found.writes]
    if found.takes:
        return found.takes
    return [
        source
        for name, source, _ in (() if reads_otherwise(line) else found.aliases)
        if program.layout(name).dtype is not program.layout(source).dtype
    ]


# States of random numbers, which ops return on the host whatever they declare.


def random_states(program: Program) -> frozenset[str]:
    """Return the buffers declared on a GPU that may actually be numbers on the host.

    Attention ops return the state of random numbers on the host, whatever they declare, except
    while a CUDA graph is being captured. Ops accept it from either place; a kernel would not.
    """
    inputs = {item.name for item in program.inputs if isinstance(item, BufferInput)}
    found = {name for name in inputs if _may_be_a_state(program.layout(name))}
    passed: set[str] = set()
    lines = [line for _, line in walk(program)]
    for line in lines:
        if traits.calls_op(line) and may_drop(schema_of(program, line.op)):
            made = effects(line, program).defines
            found.update(name for name in made if _may_be_a_state(program.layout(name)))
        elif traits.calls_kernel(line):
            passed.update(arg.buffer for arg in line.args if isinstance(arg, BufferArg))
    known = 0
    while known < len(found):  # a region's results have other names outside
        known = len(found)
        found.update(name for line in lines for name in _renamed(line, program, found))
    return frozenset(found - passed)


def _renamed(line: AnyLine, program: Program, names: Collection[str]) -> Iterator[str]:
    """Yield other names that a line gives to buffers."""
    for name, source, _ in effects(line, program).aliases:
        if source in names:
            yield name
    if not isinstance(line, RegionLine):
        return
    for _, region in regions_of(line):
        for made, value in zip(line.results, region.results, strict=False):
            if isinstance(value, BufferValue) and value.buffer in names:
                assert isinstance(made, ResultBuffer)
                yield made.out


def _may_be_a_state(layout: Layout) -> bool:
    is_number = not layout.size and layout.dtype.torch_name in ("int64", "uint64")
    return is_number and layout.device != CPU


# The symbols that a region needs from outside, and values for those of inputs.


def free_region_symbols(region: Region, program: Program) -> tuple[str, ...]:
    """Return the symbols that a region uses but does not bind, sorted."""
    lines = [line for _, line in walk(region)]
    regions = [region, *(inner for line in lines for _, inner in regions_of(line))]
    bound = {p.symbol for each in regions for p in each.params if isinstance(p, ScalarInput)}
    used: set[str] = set()
    for value in (value for each in regions for value in each.results):
        used |= free_symbols(getattr(value, "value", None))
    for line in lines:
        found = effects(line, program)
        used |= found.uses_symbols
        bound.update(found.defines_symbols)
        for name in (*found.touched, *found.defines):
            if name in program.buffers:
                used |= program.layout(name).symbols
    return tuple(sorted(used - bound))


def example_symbols(program: Program) -> dict[str, int | float | None]:
    """Return the symbols of a program's inputs, sorted, each with a valid value."""
    found: set[str] = set()
    for param in program.inputs:
        if isinstance(param, ScalarInput):
            found.add(param.symbol)
        elif isinstance(param, BufferInput):
            found |= program.layout(param.name).symbols
    return {name: _example(program.symbols[name]) for name in sorted(found)}


def _example(info: SymbolInfo) -> int | float | None:
    if info.kind is SymbolKind.NONE:
        return None
    if info.kind is not SymbolKind.INT:
        return 1.0 if info.kind is SymbolKind.FLOAT else True
    low = 2 if info.lower is None else max(info.lower, 2)
    return info.hint if info.hint is not None else min(low, info.upper or low)
