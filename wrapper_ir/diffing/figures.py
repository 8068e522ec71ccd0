"""Programs in numbers, for the summary of a diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.diffing.model import Figures
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import Stage, TorchOp, walk
from wrapper_ir.lines.base import Role
from wrapper_ir.lines.roles import own_roles
from wrapper_ir.lines.traits import allocates, calls_op, declares
from wrapper_ir.planning.sizes import Sizes
from wrapper_ir.planning.timeline import held_bytes, needed_bytes, peak

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

#: What comes of layouts and storages that make no sense, as those of faulty programs may.
_SENSELESS: Final = (ArithmeticError, LookupError, TypeError, ValueError, WrapperIRError)


def figures(program: Program) -> Figures:
    """Count a program; it may be a faulty one."""
    sizes = Sizes(program)
    lines = [line for _, line in walk(program)]
    new = [line.out for line in lines if allocates(line)]
    return Figures(
        lines=len(lines) - sum(map(declares, lines)),
        kernels=sum(not isinstance(k.source, TorchOp) for k in program.kernels.values()),
        calls=sum(Role.CALL in own_roles(line) for line in lines),
        ops=sum(map(calls_op, lines)),
        allocations=len(new),
        allocated_bytes=sum(_bytes(sizes, name) for name in new),
        peak_bytes=_peak(program, sizes),
    )


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
