"""The passes that there are. What one does stands where the work is done, and is imported then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from wrapper_ir.debug_printer.insert import with_debugging
from wrapper_ir.debug_printer.spec import DebugPrinter
from wrapper_ir.lines import Stage, rewrite_lines
from wrapper_ir.lines.base import Trait
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import GRAPH_BRANCHES, GRAPH_CUTS, GRAPHS

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Program

# ruff: noqa: PLC0415 - the planner is large, and programs that are planned already need none of it


@runtime_checkable
class Pass(Protocol):
    """A pass: a name, and a call that returns a new program."""

    @property
    def name(self) -> str:
        """The name under which the pass is found, such as ``plan-memory``."""

    def __call__(self, program: Program) -> Program:
        """Return the changed program; the same object where there is nothing to do."""


@dataclass(frozen=True, slots=True)
class InsertFrees:
    """``insert-frees`` derives the frees that are missing; the program's stage is left alone."""

    name: ClassVar[str] = "insert-frees"

    free_inputs: bool | None = None
    """Whether inputs are dropped after their last use; by default in training graphs."""

    def __call__(self, program: Program) -> Program:
        """Return the program with its frees."""
        from wrapper_ir.planning import insert_frees

        return insert_frees(program, free_inputs=self.free_inputs)


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """``plan-memory`` makes a logical program a planned one."""

    name: ClassVar[str] = "plan-memory"

    strategy: str = ""
    """How storage is planned, one of ``planning.STRATEGIES``; empty for the usual one."""
    arena: str = take.ARENA.field()
    """How long arenas last."""

    def __call__(self, program: Program) -> Program:
        """Return the planned program."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.planning import plan_memory

        return plan_memory(program, self.strategy or None, arena=self.arena)


@dataclass(frozen=True, slots=True)
class Branch:
    """``branch`` puts work that can run side by side on branches, for calls that are captured."""

    name: ClassVar[str] = "branch"

    limit: int = GRAPH_BRANCHES.field()
    """How many branches there may be besides the caller's stream."""

    def __call__(self, program: Program) -> Program:
        """Return the program with streams and events, where that is faster."""
        from wrapper_ir.planning import branch

        return branch(program, self.limit)


@dataclass(frozen=True, slots=True)
class PrepareCapture:
    """``prepare-capture`` makes a program ready for calls that are captured as CUDA graphs.

    It gets branches, or is cut where something in it cannot be captured.
    """

    name: ClassVar[str] = "prepare-capture"

    branches: int = GRAPH_BRANCHES.field()
    """How many branches there may be besides the caller's stream."""
    cuts: bool = GRAPH_CUTS.field()
    """Whether a program that cannot be captured as a whole is cut."""

    @classmethod
    def wanted_by(cls, emitter: object) -> PrepareCapture | None:
        """Return the pass that an emitter's options ask for; None if nothing is captured."""
        if not getattr(emitter, GRAPHS.name, False):
            return None
        branches = getattr(emitter, GRAPH_BRANCHES.name, 0)
        return cls(branches, getattr(emitter, GRAPH_CUTS.name, False))

    def __call__(self, program: Program) -> Program:
        """Return the program made ready; a planned one as it is."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.emitters.cuda_graphs.capture import why_not_captured
        from wrapper_ir.emitters.cuda_graphs.cuts import cut

        if why_not_captured(program):
            return cut(program) if self.cuts else program
        return Branch(self.branches)(program)


@dataclass(frozen=True, slots=True)
class InsertProbes:
    """``insert-probes`` puts the probes of a debug printer around calls, and fills new memory.

    Written as text it takes the options of the debug printer: ``insert-probes{level=check}``.
    """

    name: ClassVar[str] = "insert-probes"

    printer: DebugPrinter = field(default_factory=DebugPrinter)
    """What is shown, where; its ``poison`` fills new memory."""

    def __call__(self, program: Program) -> Program:
        """Return the program with probes; best planned, since planning adds lines of its own."""
        return with_debugging(program, self.printer)


@dataclass(frozen=True, slots=True)
class KeepStorage:
    """``keep-storage`` marks the memory of a planned program that targets keep between calls.

    Emitters do so by their options where nothing is marked; what is marked they keep as it says.
    """

    name: ClassVar[str] = "keep-storage"

    host: int = 0
    """Bytes of buffers of fixed size to keep on the CPU, at most."""
    device: int = 0
    """Likewise, on other devices."""
    arena: str = take.ARENA.field()
    """How long arenas last: whether pools are kept beyond that."""

    def __call__(self, program: Program) -> Program:
        """Return the program with its marks."""
        from wrapper_ir.planning import keep_storage

        return keep_storage(program, self.host, self.device, arena=self.arena)


@dataclass(frozen=True, slots=True)
class PlanExterns:
    """``plan-externs`` lets library ops write into allocations of the program, where they can."""

    name: ClassVar[str] = "plan-externs"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer ops that allocate."""
        from wrapper_ir.planning import plan_externs

        return plan_externs(program)


@dataclass(frozen=True, slots=True)
class ReuseInPlace:
    """``reuse-in-place`` puts outputs of element-wise ops where arguments die; frees must be in."""

    name: ClassVar[str] = "reuse-in-place"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer allocations."""
        from wrapper_ir.planning import reuse_in_place

        return reuse_in_place(program)


@dataclass(frozen=True, slots=True)
class StripComments:
    """``strip-comments`` removes comments, in regions too."""

    name: ClassVar[str] = "strip-comments"

    def __call__(self, program: Program) -> Program:
        """Return the program without comments."""
        body = rewrite_lines(program.body, _without_comment)
        return program if body == program.body else program.replace(body=body)


def _without_comment(line: AnyLine) -> tuple[AnyLine, ...]:
    return () if Trait.REMARK in line.traits else (line,)
