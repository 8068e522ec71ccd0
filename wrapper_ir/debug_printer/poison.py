"""Filling new memory with a value that no program means, so that reading it too early shows.

A kernel that leaves a part of its result unwritten, or adds to memory that nothing has written,
works by chance, as long as the memory happens to hold zeros. Filled with NaN, what it gives is NaN;
filled with two values in two runs, it gives two results.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.args import Access, BufferArg, ScalarArg
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import ExternKernel, KernelDefinition, TorchOp
from wrapper_ir.lines.traits import allocates_one, is_slice
from wrapper_ir.lines.walk import map_regions

if TYPE_CHECKING:
    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.expr import Scalar
    from wrapper_ir.lines.layout import DType
    from wrapper_ir.lines.program import AnyLine, Program

_FILL: Final = "aten::fill_.Scalar"
_DEFINITION: Final = KernelDefinition(
    _FILL, (), TorchOp(f"{_FILL}(Tensor(a!) self, Scalar value) -> Tensor(a!)")
)

#: Types that every device can fill.
_FLOATS: Final = ("f64", "f32", "f16", "bf16", "c64", "c128")
_INTEGERS: Final = {"i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1}


def poison(program: Program, number: float = math.nan) -> Program:
    """Fill what a planned program allocates, before anything is written to it.

    A right program gives the same results, since it reads nothing that it has not written.

    Args:
        program: The program, planned; probes keep their labels.
        number: What floating-point memory is filled with. Integers get a large one, another one for
            another number.

    Returns:
        The program with calls of ``aten::fill_`` put in.
    """
    region = _filled(program.region, program, number)
    if region.body == program.body:
        return program
    known = () if _FILL in program.kernels else (_DEFINITION,)
    return program.replace(body=(*known, *region.body))


def _filled(region: Region, program: Program, number: float) -> Region:
    body: list[AnyLine] = []
    for index, line in enumerate(region.body):
        body.append(map_regions(line, lambda inner: _filled(inner, program, number)))
        for name in _new_memory(line, region.body, index, program):
            layout = program.layout(name)
            value = _value(layout.dtype, number)
            if value is not None:
                args = (BufferArg(name, Access.READ_WRITE), ScalarArg(value))
                body.append(ExternKernel(_FILL, args, device=layout.device))
    return dataclasses.replace(region, body=tuple(body))


def _new_memory(
    line: AnyLine, body: tuple[AnyLine, ...], index: int, program: Program
) -> list[str]:
    """Return the buffer, if any, that a line makes of memory whose contents mean nothing."""
    defines = effects(line, program).defines
    if Trait.RETAKES in line.traits:
        return [name for name in defines if not _is_read_first(name, body, index, program)]
    is_unset = allocates_one(line) and not line.zeroed
    return defines if is_unset or is_slice(line) else []


def _is_read_first(name: str, body: tuple[AnyLine, ...], index: int, program: Program) -> bool:
    """Return whether a buffer is read before it is written: then its contents were to be kept."""
    names = {name}
    for line in itertools.islice(body, index + 1, None):
        found = effects(line, program)
        names |= {alias.name for alias in found.aliases if alias.source in names}
        if names & {*found.reads, *found.takes}:
            return True
        if names & set(found.writes):
            return False
        if names & set(found.uses) and not found.aliases:
            return True  # a region may read it
    return True


def _value(dtype: DType, number: float) -> Scalar | None:
    short = dtype.short
    if short in _FLOATS:
        return number
    if short in _INTEGERS:
        bits = 8 * _INTEGERS[short] - 1
        return (1 << bits) - (3 if math.isnan(number) else 7)
    return not math.isnan(number) if short == "bool" else None
