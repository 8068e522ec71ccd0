"""Memory planning: turns a logical program into a planned one.

:func:`plan` derives the missing ``free`` lines, then lets allocations reuse freed storage or places
them in arenas. Lines keep their order, and frees and reuses from the front end stay.
:func:`assign_offsets` solves the placement problem for plain intervals. :func:`check_plan` checks a
finished plan by an independent method.
"""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.analysis.kept import kept_pools
from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.errors import OptionError
from wrapper_ir.lines import Program, Stage
from wrapper_ir.lines.fields import as_program
from wrapper_ir.options.declared import ARENA
from wrapper_ir.planning import intervals
from wrapper_ir.planning.arenas import Cut
from wrapper_ir.planning.externs import plan_externs, reuse_in_place
from wrapper_ir.planning.intervals import *
from wrapper_ir.planning.offsets import OffsetPlan, assign_offsets
from wrapper_ir.planning.pool import pool_storage
from wrapper_ir.planning.report import (
    Arena,
    Held,
    Holding,
    Outside,
    Panel,
    PlanReport,
    Slice,
    check_plan,
    panels,
    picture,
    report,
)
from wrapper_ir.planning.results import check_results
from wrapper_ir.planning.reuse import insert_frees, reuse_storage
from wrapper_ir.planning.sizes import Rounded, held_bytes, needed_bytes, peak
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ARENAS", "STRATEGIES", "Arena", "Cut", "Held", "Holding", "Life", "Liveness"]
__all__ += ["OffsetPlan", "Outside", "Panel", "PlanReport", "PlanResult", "Slice"]
__all__ += ["assign_offsets", "check_plan", "check_results", "insert_frees", "kept_pools", "panels"]
__all__ += ["picture", "plan"]
__all__ += ["plan_externs", "plan_memory", "pool_storage", "reuse_in_place", "reuse_storage"]
__all__ += intervals.__all__


ARENAS: Final = ARENA.choices
"""The lifetimes of arenas."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A planned program and the figures of its plan."""

    program: Program
    report: PlanReport


def plan(
    program: Program,
    strategy: str | None = None,
    *,
    arena: str = "call",
    free_inputs: bool | None = None,
) -> PlanResult:
    """Plan the memory of a program. A program that is already planned stays as it is.

    Args:
        program: The program to plan; it is verified first.
        strategy: ``"reuse"`` lets allocations take over freed storage. ``"pool"`` places them in
            arenas, after library ops have been changed to their ``out=`` overloads and pointwise
            ones to work in place. ``"none"`` only derives the frees. The default is ``"pool"`` if
            arenas are kept, else ``"reuse"``.
        arena: The lifetime of arenas: one ``"call"``, or ``"kept"`` for the next call by an emitter
            with that option. Kept arenas take in all they can, whatever the effect on the peak.
        free_inputs: Drop inputs after their last use; by default done in training graphs only.

    Raises:
        VerificationError: The program breaks rules of the IR.
        OptionError: There is no such strategy.
        OptionValueError: The arena lifetime is unknown, or the strategy makes no arenas to keep.
    """
    freed, planned = _planned(program, strategy, arena, free_inputs=free_inputs)
    name, _ = _chosen(strategy, arena)
    numbers = report(name, freed, planned.program, planned.winner, planned.winners, arena=arena)
    return PlanResult(planned.program, numbers)


def plan_memory(program: Program, strategy: str | None = None, *, arena: str = "call") -> Program:
    """Return the program of :func:`plan` without a report. Raises the same errors."""
    return _planned(program, strategy, arena, free_inputs=None)[1].program


def _planned(
    program: Program, strategy: str | None, arena: str, *, free_inputs: bool | None
) -> tuple[Program, Planned]:
    """Return the program with all frees inserted, and the planned program."""
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
    whole = planned.program.replace(stage=Stage.PLANNED)
    if whole.folding is not None:  # it runs once, so nothing of it is worth keeping
        whole = whole.replace(folding=plan_memory(whole.folding))
    return freed, planned._replace(program=whole)


# Strategies. Each takes a program whose frees have been inserted.
#
# ``pool`` puts storages into arenas and applies reuse to the rest. Arenas do not always beat reuse,
# since storage in them cannot become a result. So ``pool`` makes several plans and takes the one
# with the lowest peak. Kept arenas occupy memory anyway, so there is one for each place, and it
# takes in all it can.


class Planned(NamedTuple):
    """A planned program, the method that won, and the planner of each pool."""

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
        # On a tie with reuse, the arena is better: it needs fewer allocations.
        if held < least or (held == least and best.winner == "reuse"):
            best, least = candidate, held
        if best.winner != "reuse" and least <= bound:
            break
    return best


def _kept(program: Program) -> Planned:
    """Plan with kept arenas. They occupy memory anyway, so peaks do not matter."""
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
    """Return the peak of the bytes that ``count`` finds for each line of the main body."""
    region, sizes = program.region, Rounded(program).compute(program)
    return peak(count(region, Liveness(region, program), program, sizes))


STRATEGIES: Final[dict[str, Callable[[Program], Planned]]] = {
    "none": _none,
    "reuse": _reuse,
    "pool": _pool,
}
"""Strategies by name."""


def _chosen(strategy: str | None, arena: str) -> tuple[str, Callable[[Program], Planned]]:
    """Return the name and the planner of a strategy, for arenas of the given lifetime."""
    ARENA.check(arena)
    name = strategy if strategy is not None else "pool" if arena == "kept" else "reuse"
    if name not in STRATEGIES:
        raise OptionError(option=name, legal=STRATEGIES, owner="the memory planner")
    ARENA.check_beside(arena, {"strategy": name})
    return name, STRATEGIES[name] if arena == "call" else _kept
