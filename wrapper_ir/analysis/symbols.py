"""The symbols that a region needs from outside, and values for those of inputs."""

from __future__ import annotations

from typing import Final

from wrapper_ir.lines.control import BufferInput, Region, ScalarInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.program import Program, SymbolKind
from wrapper_ir.lines.walk import regions_of, walk


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


def example_symbols(program: Program) -> dict[str, str]:
    """Return the symbols of a program's inputs, sorted, each with a valid value as Python text."""
    found: set[str] = set()
    for param in program.inputs:
        if isinstance(param, ScalarInput):
            found.add(param.symbol)
        elif isinstance(param, BufferInput):
            found |= program.layout(param.name).symbols
    return {name: _example(program, name) for name in sorted(found)}


def _example(program: Program, name: str) -> str:
    info = program.symbols[name]
    if info.kind in _PLAIN_EXAMPLES:
        return _PLAIN_EXAMPLES[info.kind]
    low = 2 if info.lower is None else max(info.lower, 2)
    return str(info.hint if info.hint is not None else min(low, info.upper or low))


_PLAIN_EXAMPLES: Final = {SymbolKind.BOOL: "True", SymbolKind.FLOAT: "1.0", SymbolKind.NONE: "None"}
