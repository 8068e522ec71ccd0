"""The passes that there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from wrapper_ir.lines import rewrite_lines
from wrapper_ir.lines.base import Trait
from wrapper_ir.planning import (
    branch,
    insert_frees,
    keep_storage,
    plan_externs,
    plan_memory,
    reuse_in_place,
)

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Program


@runtime_checkable
class Pass(Protocol):
    """A pass: a name, and a call that returns a new program."""

    @property
    def name(self) -> str:
        """The name under which the pass is found, such as ``plan-memory``."""

    def __call__(self, program: Program) -> Program:
        """The changed program; the same object where there is nothing to do."""


@dataclass(frozen=True, slots=True)
class InsertFrees:
    """``insert-frees`` derives the frees that are missing; the program's stage is left alone."""

    name: ClassVar[str] = "insert-frees"

    free_inputs: bool | None = None
    """Whether inputs are dropped after their last use; by default in training graphs."""

    def __call__(self, program: Program) -> Program:
        """The program with its frees."""
        return insert_frees(program, free_inputs=self.free_inputs)


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """``plan-memory`` makes a logical program a planned one."""

    name: ClassVar[str] = "plan-memory"

    strategy: str = ""
    """How storage is planned, one of ``planning.STRATEGIES``; empty for the usual one."""
    arena: str = "call"
    """How long arenas last, one of ``planning.ARENAS``."""

    def __call__(self, program: Program) -> Program:
        """The planned program."""
        return plan_memory(program, self.strategy or None, arena=self.arena)


@dataclass(frozen=True, slots=True)
class Branch:
    """``branch`` puts work that can run side by side on branches, for calls that are captured."""

    name: ClassVar[str] = "branch"

    limit: int = 2
    """How many branches there may be besides the caller's stream."""

    def __call__(self, program: Program) -> Program:
        """The program with streams and events, where that is faster."""
        return branch(program, self.limit)


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
    arena: str = "call"
    """Whether pools are ``kept`` beyond that, one of ``planning.ARENAS``."""

    def __call__(self, program: Program) -> Program:
        """The program with its marks."""
        return keep_storage(program, self.host, self.device, arena=self.arena)


@dataclass(frozen=True, slots=True)
class PlanExterns:
    """``plan-externs`` lets library ops write into allocations of the program, where they can."""

    name: ClassVar[str] = "plan-externs"

    def __call__(self, program: Program) -> Program:
        """The program with fewer ops that allocate."""
        return plan_externs(program)


@dataclass(frozen=True, slots=True)
class ReuseInPlace:
    """``reuse-in-place`` puts outputs of element-wise ops where arguments die; frees must be in."""

    name: ClassVar[str] = "reuse-in-place"

    def __call__(self, program: Program) -> Program:
        """The program with fewer allocations."""
        return reuse_in_place(program)


@dataclass(frozen=True, slots=True)
class StripComments:
    """``strip-comments`` removes comments, in regions too."""

    name: ClassVar[str] = "strip-comments"

    def __call__(self, program: Program) -> Program:
        """The program without comments."""
        body = rewrite_lines(program.body, _without_comment)
        return program if body == program.body else program.replace(body=body)


def _without_comment(line: AnyLine) -> tuple[AnyLine, ...]:
    return () if Trait.REMARK in line.traits else (line,)
