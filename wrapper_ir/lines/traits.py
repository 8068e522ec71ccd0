"""Questions about lines that their traits answer, for code that may not ask for a class.

Each holds for a new line that declares the trait and has the fields that its users read.
"""

from __future__ import annotations

from typing import TypeGuard

from wrapper_ir.lines.base import Role, Trait
from wrapper_ir.lines.control import AnyLine, While
from wrapper_ir.lines.expr import Scalar
from wrapper_ir.lines.kernels import ExternKernel, KernelCall, KernelDefinition
from wrapper_ir.lines.memory import Allocate, AllocateFromPool, AllocatePool, Free
from wrapper_ir.lines.roles import NAMED_FIELDS
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, BindSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Probe


def declares(line: AnyLine) -> TypeGuard[KernelDefinition]:
    """Return whether a line says what lines may call, and does nothing else."""
    return Trait.DECLARES in line.traits


def calls_op(line: AnyLine) -> TypeGuard[ExternKernel]:
    """Return whether a line calls a library op."""
    return Trait.CALLS_OP in line.traits


def calls_kernel(line: AnyLine) -> TypeGuard[KernelCall]:
    """Return whether a line calls a kernel of the program."""
    return Trait.WORKS in line.traits and any(
        Role.CALL in field.roles for field in NAMED_FIELDS[type(line)]
    )


def op_of(line: AnyLine) -> str:
    """Return the library op that a line calls, empty if it calls none."""
    return line.op if calls_op(line) else ""


def works(line: AnyLine) -> TypeGuard[Allocate | KernelCall | ExternKernel]:
    """Return whether a line puts work, or takes memory, on the stream that it names."""
    return Trait.WORKS in line.traits


def takes_memory(line: AnyLine) -> TypeGuard[Allocate | ExternKernel]:
    """Return whether a line defines buffers from the memory pool that it names."""
    return Trait.TAKES_MEMORY in line.traits


def allocates_one(line: AnyLine | None) -> TypeGuard[Allocate]:
    """Return whether a line takes new storage for one buffer, which is no pool."""
    if line is None:
        return False
    return Trait.ALLOCATES in line.traits and Trait.POOL not in line.traits


def ends(line: AnyLine) -> TypeGuard[Free]:
    """Return whether a line ends storage, and does nothing else."""
    return Trait.ENDS in line.traits


def shows(line: AnyLine) -> TypeGuard[Probe]:
    """Return whether a line shows values, and does nothing else."""
    return Trait.SHOWS in line.traits


def loops(line: AnyLine) -> TypeGuard[While]:
    """Return whether a line runs a region until another one says that it is done."""
    return Trait.LOOPS in line.traits


def asserts(line: AnyLine) -> TypeGuard[AssertSymbol]:
    """Return whether a line says that its condition holds."""
    return Trait.ASSERTS in line.traits


def computes(line: AnyLine) -> TypeGuard[ComputeSymbol]:
    """Return whether a line gives a symbol the value of an expression."""
    return Trait.COMPUTES in line.traits


def asserted(line: AnyLine) -> Scalar | None:
    """Return what holds of symbols from a line on, if it says so."""
    return line.condition if asserts(line) else None


def binds(line: AnyLine) -> TypeGuard[BindSymbol]:
    """Return whether a line gives a symbol the value that it finds in a buffer."""
    return Trait.BINDS in line.traits


def allocates(line: AnyLine) -> TypeGuard[Allocate | AllocatePool]:
    """Return whether a line takes new storage from an allocator, in the memory that it names."""
    return Trait.ALLOCATES in line.traits


def is_slice(line: AnyLine) -> TypeGuard[AllocateFromPool]:
    """Return whether a line defines a part of a pool."""
    return Trait.SLICES in line.traits


def checks_layout(line: AnyLine) -> TypeGuard[AssertLayout]:
    """Return whether a buffer is as its layout says from a line on."""
    return Trait.CHECKS_LAYOUT in line.traits
