"""Strategies: what is done to a program whose frees are in, by name.

``none`` leaves it. ``reuse`` lets allocations take over freed storage. ``pool`` puts storages into
arenas and lets what stays outside be reused; arenas are not always less than reuse, since storage
in them cannot become a result, so of the plans it makes it takes the one that holds the least.
Arenas that are kept from call to call are held anyway: then one for each place takes in all it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.errors import OptionError
from wrapper_ir.options.declared import ARENA
from wrapper_ir.planning.arenas import Cut
from wrapper_ir.planning.picture import compute_symbols
from wrapper_ir.planning.pool import pool_storage
from wrapper_ir.planning.reuse import reuse_storage
from wrapper_ir.planning.sizes import Rounded, Sizes
from wrapper_ir.planning.timeline import held_bytes, needed_bytes, peak

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines import Program


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
    least, bound = _held(best.program), _needed(program)
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
    region, sizes = program.region, _rounded(program)
    return peak(held_bytes(region, Liveness(region, program), program, sizes))


def _needed(program: Program) -> int:
    region, sizes = program.region, _rounded(program)
    return peak(needed_bytes(region, Liveness(region, program), program, sizes))


def _rounded(program: Program) -> Sizes:
    sizes = Rounded(program)
    compute_symbols(program, sizes)
    return sizes


STRATEGIES: Final[dict[str, Callable[[Program], Planned]]] = {
    "none": _none,
    "reuse": _reuse,
    "pool": _pool,
}
"""Every strategy by its name."""


def chosen(strategy: str | None, arena: str) -> Callable[[Program], Planned]:
    """Return the planner of a strategy, for arenas of the given lifetime.

    Raises:
        OptionError: There is no such strategy.
        OptionValueError: Arenas cannot last so long, or the strategy makes none.
    """
    ARENA.check(arena)
    name = strategy_name(strategy, arena)
    if name not in STRATEGIES:
        raise OptionError(option=name, legal=STRATEGIES, owner="the memory planner")
    ARENA.check_beside(arena, {"memory": name})
    return STRATEGIES[name] if arena == "call" else _kept


def strategy_name(strategy: str | None, arena: str) -> str:
    """A strategy's name; the usual one for arenas that last so long where none is given."""
    if strategy is not None:
        return strategy
    return "pool" if arena == "kept" else "reuse"
