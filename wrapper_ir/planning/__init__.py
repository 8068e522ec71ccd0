"""Memory planning: from a logical program to one that says where each storage lies and ends.

:func:`plan` derives the missing ``free`` lines and lets allocations take over freed storage, or
gives them places in arenas; lines keep their order. Front ends may have said part of it already:
their frees and reuses stay. :func:`assign_offsets` is the part that knows no programs, and
:func:`check_plan` examines a plan in another way than plans are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.errors import OptionError
from wrapper_ir.lines import Program, Stage
from wrapper_ir.lines.fields import as_program
from wrapper_ir.options.declared import ARENA
from wrapper_ir.planning.arenas import Cut
from wrapper_ir.planning.branches import branch
from wrapper_ir.planning.externs import plan_externs, reuse_in_place
from wrapper_ir.planning.frees import insert_frees
from wrapper_ir.planning.kept import ARENAS, keep_storage, kept_pools
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
from wrapper_ir.planning.picture import picture
from wrapper_ir.planning.pool import pool_storage
from wrapper_ir.planning.report import (
    Arena,
    Held,
    Holding,
    Outside,
    PlanReport,
    Slice,
    check_plan,
    report,
)
from wrapper_ir.planning.reuse import reuse_storage
from wrapper_ir.planning.sizes import Rounded, held_bytes, needed_bytes, peak
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ARENAS",
    "NODES",
    "STRATEGIES",
    "Arena",
    "Cut",
    "Held",
    "Holding",
    "Interval",
    "IntervalError",
    "IntervalFileError",
    "IntervalTable",
    "Life",
    "Liveness",
    "OffsetPlan",
    "Outside",
    "PlanError",
    "PlanReport",
    "PlanResult",
    "Slice",
    "assign_offsets",
    "branch",
    "check_offsets",
    "check_plan",
    "insert_frees",
    "keep_storage",
    "kept_pools",
    "picture",
    "plan",
    "plan_externs",
    "plan_memory",
    "pool_storage",
    "read_intervals",
    "reuse_in_place",
    "reuse_storage",
    "write_intervals",
]


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A planned program and what the plan amounts to."""

    program: Program
    report: PlanReport


def plan(
    program: Program,
    strategy: str | None = None,
    *,
    arena: str = "call",
    free_inputs: bool | None = None,
) -> PlanResult:
    """Makes every end of storage explicit; a program that is planned already stays as it is.

    Args:
        program: What to plan; it is verified first.
        strategy: ``"reuse"`` lets allocations take over freed storage. ``"pool"`` gives them places
            in arenas, and before that lets library ops write where they are told and element-wise
            ones in place. ``"none"`` only derives the frees. By default ``"reuse"``, and ``"pool"``
            where arenas are kept.
        arena: How long arenas last: a ``"call"``, or ``"kept"`` for the next one, by an emitter
            with that option. Kept arenas take in all they can, whatever that does to the peak.
        free_inputs: Whether inputs are dropped after their last use; by default in training graphs.

    Raises:
        VerificationError: the program breaks rules of the IR.
        OptionError: there is no such strategy.
        OptionValueError: arenas cannot last so long, or the strategy makes none to keep.
    """
    freed, planned = _planned(program, strategy, arena, free_inputs=free_inputs)
    name, _ = _chosen(strategy, arena)
    numbers = report(name, freed, planned.program, planned.winner, planned.winners, arena=arena)
    return PlanResult(planned.program, numbers)


def plan_memory(program: Program, strategy: str | None = None, *, arena: str = "call") -> Program:
    """The program of :func:`plan`, without the report: raises what that raises."""
    return _planned(program, strategy, arena, free_inputs=None)[1].program


def _planned(
    program: Program, strategy: str | None, arena: str, *, free_inputs: bool | None
) -> tuple[Program, Planned]:
    """The program with all frees in, and planned."""
    as_program(program, "wir.plan_memory")
    name, planner = _chosen(strategy, arena)
    verify(program)
    if program.stage is Stage.PLANNED:
        return program, Planned(program, "", {})
    freed = insert_frees(program, free_inputs=free_inputs)
    start = freed
    if name == "pool":
        start = insert_frees(plan_externs(program), free_inputs=free_inputs)
        start = reuse_in_place(start)
    planned = planner(start)
    return freed, planned._replace(program=planned.program.replace(stage=Stage.PLANNED))


# Strategies: what is done to a program whose frees are in, by name.
#
# ``none`` leaves it. ``reuse`` lets allocations take over freed storage. ``pool`` puts storages
# into arenas and lets what stays outside be reused; arenas are not always less than reuse, since
# storage in them cannot become a result, so of the plans it makes it takes the one that holds the
# least. Arenas that are kept from call to call are held anyway: then one for each place takes in
# all it can.


class Planned(NamedTuple):
    """A program with its memory planned, the way that won, and the planner of each of its pools."""

    program: Program
    winner: str
    winners: dict[str, str]


def _none(program: Program) -> Planned:
    return Planned(program, "none", {})


def _reuse(program: Program) -> Planned:
    return Planned(reuse_storage(program), "reuse", {})


def _pool(program: Program) -> Planned:
    best = _reuse(program)
    least, bound = _held(best.program), _most(program, needed_bytes)
    for name, cut in _WAYS:
        pooled = pool_storage(program, cut)
        if not pooled.winners:
            continue
        candidate = Planned(reuse_storage(pooled.program), name, pooled.winners)
        held = _held(candidate.program)
        # Where both hold as much, the arena is the better one: it has fewer allocations.
        if held < least or (held == least and best.winner == "reuse"):
            best, least = candidate, held
        if best.winner != "reuse" and least <= bound:
            break
    return best


def _kept(program: Program) -> Planned:
    """Arenas that are there anyway hold all they can; peaks are no reason against them."""
    pooled = pool_storage(program, Cut.KEPT)
    planned = reuse_storage(pooled.program)
    return Planned(planned, "pool" if pooled.winners else "reuse", pooled.winners)


_WAYS: Final = (
    ("pool", Cut.WHOLE),
    ("pools one after another", Cut.IDLE),
    ("pools in windows", Cut.WINDOWS),
)


def _held(program: Program) -> int:
    return _most(program, held_bytes)


def _most(program: Program, count: Callable[..., list[int]]) -> int:
    """The most bytes at once, of those that are counted for the program's own lines."""
    region, sizes = program.region, Rounded(program).compute(program)
    return peak(count(region, Liveness(region, program), program, sizes))


STRATEGIES: Final[dict[str, Callable[[Program], Planned]]] = {
    "none": _none,
    "reuse": _reuse,
    "pool": _pool,
}
"""Every strategy by its name."""


def _chosen(strategy: str | None, arena: str) -> tuple[str, Callable[[Program], Planned]]:
    """Return the name and the planner of a strategy, for arenas of the given lifetime.

    Raises:
        OptionError: There is no such strategy.
        OptionValueError: Arenas cannot last so long, or the strategy makes none.
    """
    ARENA.check(arena)
    name = strategy if strategy is not None else "pool" if arena == "kept" else "reuse"
    if name not in STRATEGIES:
        raise OptionError(option=name, legal=STRATEGIES, owner="the memory planner")
    ARENA.check_beside(arena, {"memory": name})
    return name, STRATEGIES[name] if arena == "call" else _kept
