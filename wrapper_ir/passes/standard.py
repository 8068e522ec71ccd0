"""The passes of the library itself.

Each is a frozen dataclass whose fields are its options. Each imports its implementation when it
runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wrapper_ir.debug_printer.insert import with_debugging
from wrapper_ir.debug_printer.spec import DebugPrinter
from wrapper_ir.lines import Stage, rewrite_lines
from wrapper_ir.lines.base import Trait
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import GRAPH_BRANCHES, GRAPH_CUTS
from wrapper_ir.options.legal import Legal

# ruff: noqa: PLC0415 - the planner is large, and a planned program does not need it

if TYPE_CHECKING:
    from wrapper_ir.interpreter.fake import FakeCalls
    from wrapper_ir.lines import Program


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
        from wrapper_ir.analysis.ops import is_torchs
        from wrapper_ir.planning import check_results

        @cache
        def calls() -> FakeCalls:
            from wrapper_ir.interpreter.fake import FakeCalls  # imports torch

            return FakeCalls(program)

        return check_results(program, lambda line: is_torchs(line.op) and calls().fixes(line))


@dataclass(frozen=True, slots=True)
class Branch:
    """``branch`` moves independent work to branches, for calls that are captured."""

    name: ClassVar[str] = "branch"

    limit: int = GRAPH_BRANCHES.field()
    """The maximum number of branches besides the caller's stream."""

    def __call__(self, program: Program) -> Program:
        """Return the program with streams and events added, if that is faster."""
        from wrapper_ir.planning import branch

        return branch(program, self.limit)


@dataclass(frozen=True, slots=True)
class PrepareCapture:
    """``prepare-capture`` prepares a program for calls that are captured as CUDA graphs.

    It adds branches, or cuts the program if it cannot be captured as a whole.
    """

    name: ClassVar[str] = "prepare-capture"

    branches: int = GRAPH_BRANCHES.field()
    """The maximum number of branches besides the caller's stream."""
    cuts: bool = GRAPH_CUTS.field()
    """Cut a program that cannot be captured as a whole."""

    def __call__(self, program: Program) -> Program:
        """Return the prepared program; a planned program is returned unchanged."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.emitters.cuda_captures import why_not_captured
        from wrapper_ir.emitters.cuda_cuts import cut

        if why_not_captured(program):
            return cut(program) if self.cuts else program
        return Branch(self.branches)(program)


@dataclass(frozen=True, slots=True)
class InsertProbes:
    """``insert-probes`` puts a debug printer's probes around calls, and poisons new memory.

    In textual form it takes the debug printer's options: ``insert-probes{level=check}``.
    """

    name: ClassVar[str] = "insert-probes"

    printer: DebugPrinter = field(default_factory=DebugPrinter)
    """The values to show and where; its ``poison`` fills new memory with NaN."""

    def __call__(self, program: Program) -> Program:
        """Return the program with probes. Run it after planning, which adds lines of its own."""
        return with_debugging(program, self.printer)


@dataclass(frozen=True, slots=True)
class KeepStorage:
    """``keep-storage`` marks the memory of a planned program that is kept between calls.

    Emitters honour the marks. If there are none, they choose by their own options.
    """

    name: ClassVar[str] = "keep-storage"

    host: int = 0
    """The maximum number of bytes, in buffers of fixed size, to keep on the CPU."""
    device: int = 0
    """The same for other devices."""
    arena: str = take.ARENA.field()
    """The lifetime of arenas: with ``"kept"``, pools are kept as well."""

    def __call__(self, program: Program) -> Program:
        """Return the marked program."""
        from wrapper_ir.planning import keep_storage

        return keep_storage(program, self.host, self.device, arena=self.arena)


@dataclass(frozen=True, slots=True)
class Legalise(Legal):
    """``legalise`` turns what a target cannot render into lines that it can.

    Its options are what an emitter declares to be legal; by default that is everything.
    """

    name: ClassVar[str] = "legalise"

    def __call__(self, program: Program) -> Program:
        """Return the program without what is not legal; one that is not planned is unchanged."""
        if program.stage is not Stage.PLANNED:
            return program
        from wrapper_ir.passes.legalise import (
            copy_round_writes,
            replace_reuse,
            separate_loops,
            split_pools,
        )
        from wrapper_ir.planning import insert_frees

        result = program if self.mixed_pools else split_pools(program)
        result = result if self.retyped_reuse else replace_reuse(result)
        result = copy_round_writes(result, self)
        result = result if self.shared_loops else separate_loops(result)
        # A result that may be a copy keeps it alive, and a slice its part of a pool.
        return program if result is program else insert_frees(result, free_inputs=False)


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


OF_CALLS: Final = (Branch, PrepareCapture, InsertProbes, KeepStorage)
"""Passes about calls. What computes folded constants runs once, when they are loaded."""

STANDARD: Final[tuple[type[Any], ...]] = (
    *(Branch, CheckResults, InsertFrees, InsertProbes, PlanExterns, ReuseInPlace, PlanMemory),
    *(KeepStorage, Legalise),
    *(PrepareCapture, StripComments),
)
"""Every pass of the library."""
