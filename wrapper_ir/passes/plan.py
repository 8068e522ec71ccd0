"""Passes that call one function: checks of results, frees, memory, comments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from wrapper_ir.analysis.ops import fits_product, is_torchs
from wrapper_ir.lines import ExternKernel, Program, Stage, rewrite_lines
from wrapper_ir.lines.base import Trait
from wrapper_ir.options import declared as take

# ruff: noqa: PLC0415 - the planner is large, and a planned program does not need it

if TYPE_CHECKING:
    from wrapper_ir.interpreter.fake import FakeCalls

__all__ = ["CheckResults", "InsertFrees", "PlanExterns", "PlanMemory", "ReuseInPlace"]
__all__ += ["StripComments"]


@dataclass(frozen=True, slots=True)
class InsertFrees:
    """``insert-frees`` adds the missing frees, without changing the program's stage."""

    name: ClassVar[str] = "insert-frees"

    free_inputs: bool | None = None
    """Drop inputs after their last use; the default is to do so in training graphs."""

    def __call__(self, program: Program) -> Program:
        """Return the program with its frees."""
        from wrapper_ir.planning import insert_frees

        return insert_frees(program, free_inputs=self.free_inputs)


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """``plan-memory`` turns a logical program into a planned one."""

    name: ClassVar[str] = "plan-memory"

    strategy: str = ""
    """One of ``planning.STRATEGIES``; empty for the default."""
    arena: str = take.ARENA.field()
    """The lifetime of arenas: ``"call"`` or ``"kept"``."""

    def __call__(self, program: Program) -> Program:
        """Return the planned program."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.planning import plan_memory

        return plan_memory(program, self.strategy or None, arena=self.arena)


@dataclass(frozen=True, slots=True)
class CheckResults:
    """``check-results`` checks what library ops return where torch's meta functions do not fix it.

    A meta function runs on the declared layouts of the arguments. It is not believed if the op is
    not one of torch's: it may be written apart from the op, and contradict it.
    """

    name: ClassVar[str] = "check-results"

    def __call__(self, program: Program) -> Program:
        """Return the program with a check of each such result that is not checked yet."""
        from wrapper_ir.planning import check_results

        @cache
        def calls() -> FakeCalls:
            from wrapper_ir.interpreter.fake import FakeCalls  # imports torch

            return FakeCalls(program)

        def is_fixed(line: ExternKernel) -> bool:
            return is_torchs(line.op) and (fits_product(program, line) or calls().fixes(line))

        return check_results(program, is_fixed)


@dataclass(frozen=True, slots=True)
class PlanExterns:
    """``plan-externs`` makes library ops write into the program's own allocations if they can."""

    name: ClassVar[str] = "plan-externs"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer ops that allocate their results."""
        from wrapper_ir.planning import plan_externs

        return plan_externs(program)


@dataclass(frozen=True, slots=True)
class ReuseInPlace:
    """``reuse-in-place`` lets element-wise ops overwrite a dying argument; it needs the frees."""

    name: ClassVar[str] = "reuse-in-place"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer allocations."""
        from wrapper_ir.planning import reuse_in_place

        return reuse_in_place(program)


@dataclass(frozen=True, slots=True)
class StripComments:
    """``strip-comments`` removes comments, including those in regions."""

    name: ClassVar[str] = "strip-comments"

    def __call__(self, program: Program) -> Program:
        """Return the program without comments."""
        body = rewrite_lines(
            program.body, lambda line: () if Trait.REMARK in line.traits else (line,)
        )
        return program if body == program.body else program.replace(body=body)
