"""Programs in numbers, for the summary of a diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.diffing.model import Figures
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import (
    Allocate,
    AllocatePool,
    ExternKernel,
    KernelCall,
    KernelDefinition,
    Stage,
    TorchOp,
    walk,
)
from wrapper_ir.planning.liveness import Liveness
from wrapper_ir.planning.sizes import Sizes
from wrapper_ir.planning.timeline import held_bytes, needed_bytes, peak

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

__all__ = ["figures"]

#: What comes of layouts and storages that make no sense, as those of faulty programs may.
_SENSELESS: Final = (ArithmeticError, LookupError, TypeError, ValueError, WrapperIRError)


def figures(program: Program) -> Figures:
    """A program in numbers; it may be a faulty one."""
    sizes = Sizes(program)
    count = {"lines": 0, "calls": 0, "ops": 0, "allocations": 0, "allocated_bytes": 0}
    for _, line in walk(program):
        if isinstance(line, KernelDefinition):
            continue
        count["lines"] += 1
        count["calls"] += isinstance(line, KernelCall)
        count["ops"] += isinstance(line, ExternKernel)
        if isinstance(line, (Allocate, AllocatePool)):
            count["allocations"] += 1
            count["allocated_bytes"] += _bytes(sizes, line.out)
    kernels = sum(not isinstance(k.source, TorchOp) for k in program.kernels.values())
    return Figures(kernels=kernels, peak_bytes=_peak(program, sizes), **count)


def _bytes(sizes: Sizes, name: str) -> int:
    try:
        return sizes.of(name)
    except _SENSELESS:
        return 0


def _peak(program: Program, sizes: Sizes) -> int | None:
    try:
        liveness = Liveness(program.region, program)
        measure = held_bytes if program.stage is Stage.PLANNED else needed_bytes
        return peak(measure(program.region, liveness, program, sizes))
    except _SENSELESS:
        return None
