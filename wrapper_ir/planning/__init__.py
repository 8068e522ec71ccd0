"""Memory planning: from a logical program to one that says where each storage ends.

:func:`plan` derives the missing ``free`` lines and lets allocations take over freed storage; lines
keep their order. Front ends may have said part of it already: their frees and reuses stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import OptionError, UnsupportedError
from wrapper_ir.lines import Program, Stage
from wrapper_ir.planning.frees import insert_frees
from wrapper_ir.planning.liveness import Life, Liveness
from wrapper_ir.planning.offsets import (
    NODES,
    Interval,
    IntervalError,
    IntervalFileError,
    IntervalTable,
    OffsetPlan,
    PlanError,
    assign_offsets,
    check_offsets,
    read_intervals,
    write_intervals,
)
from wrapper_ir.planning.report import PlanReport, report
from wrapper_ir.planning.reuse import reuse_storage
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "NODES",
    "STRATEGIES",
    "Interval",
    "IntervalError",
    "IntervalFileError",
    "IntervalTable",
    "Life",
    "Liveness",
    "OffsetPlan",
    "PlanError",
    "PlanReport",
    "PlanResult",
    "UnsupportedStrategyError",
    "assign_offsets",
    "check_offsets",
    "insert_frees",
    "plan",
    "plan_memory",
    "read_intervals",
    "reuse_storage",
    "write_intervals",
]


def _unchanged(program: Program) -> Program:
    return program


#: What is done to a program whose frees are in, by the name of the strategy.
STRATEGIES: Final[dict[str, Callable[[Program], Program]]] = {
    "none": _unchanged,
    "reuse": reuse_storage,
}

_TO_COME: Final = ("pool",)


class UnsupportedStrategyError(UnsupportedError):
    """A planning strategy has a name already but is not there yet.

    Fields: ``strategy`` names it, ``available`` lists those that are there.
    """

    code = "WIR1301"
    template = "the planning strategy {strategy!r} is not available yet"
    default_hint = "available are {available}"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A planned program and what the plan amounts to."""

    program: Program
    report: PlanReport


def plan(
    program: Program, strategy: str = "reuse", *, free_inputs: bool | None = None
) -> PlanResult:
    """Makes every end of storage explicit; a program that is planned already stays as it is.

    Args:
        program: What to plan; it is verified first.
        strategy: ``"reuse"`` lets allocations take over freed storage of exactly their size,
            ``"none"`` only derives the frees.
        free_inputs: Whether inputs are dropped after their last use; by default in training graphs.

    Raises:
        VerificationError: the program breaks rules of the IR.
        OptionError: there is no such strategy.
        UnsupportedStrategyError: the strategy is not available yet.
    """
    freed, planned = _planned(program, strategy, free_inputs=free_inputs)
    return PlanResult(planned, report(strategy, freed, planned))


def plan_memory(program: Program, strategy: str = "reuse") -> Program:
    """The program of :func:`plan`, without the report: raises what that raises."""
    return _planned(program, strategy, free_inputs=None)[1]


def _planned(
    program: Program, strategy: str, *, free_inputs: bool | None
) -> tuple[Program, Program]:
    """The program with all frees in, and planned."""
    if strategy in _TO_COME:
        raise UnsupportedStrategyError(strategy=strategy, available=", ".join(STRATEGIES))
    if strategy not in STRATEGIES:
        raise OptionError(option=strategy, legal=STRATEGIES, owner="the memory planner")
    verify(program)
    if program.stage is Stage.PLANNED:
        return program, program
    freed = insert_frees(program, free_inputs=free_inputs)
    return freed, STRATEGIES[strategy](freed).replace(stage=Stage.PLANNED)
