"""Figures of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.lines import FrozenMap, walk_regions
from wrapper_ir.lines.base import Trait
from wrapper_ir.planning.arenas import Judge
from wrapper_ir.planning.kept import kept_pools
from wrapper_ir.planning.picture import Arena, arenas_of, sizes_of
from wrapper_ir.planning.timeline import held_bytes, needed_bytes, peak

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.lines import Program, Region
    from wrapper_ir.planning.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Outside:
    """A storage in no arena; its bytes are at the hints where sizes are symbolic."""

    name: str
    """The buffer that it begins with; it may go on under other names."""
    nbytes: int
    reason: str
    """Why, in words that go on from its name."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Numbers of a plan; all bytes are at ``hints`` where sizes are symbolic.

    Counted is what the program owns: its allocations and what library ops return. Inputs, constants
    and what an op uses inside itself are not counted. A line with regions counts as holding what
    the largest of them needs.
    """

    strategy: str
    buffers: int
    """Names that own storage, one for each reuse included."""
    allocations: int
    """Allocations, pools included, that the plan makes."""
    reuses: int
    """Storage that goes on under another name, where a front end said so included."""
    total_bytes: int
    """Bytes of all buffers: what the program would hold if nothing ended or were reused."""
    unplanned_peak_bytes: int
    """The most held at once when storage is freed after its last use and not reused by the plan."""
    peak_bytes: int
    """The most held at once under the plan."""
    lower_bound_bytes: int
    """The most needed at once by any plan for these lines in this order."""
    hints: FrozenMap[int] = field(default_factory=FrozenMap)
    """Value taken for each symbol that sizes depend on; empty where all sizes are known."""
    assumed: tuple[str, ...] = ()
    """Those symbols that have no hint, so that a usual value was taken."""
    winner: str = ""
    """The way of planning whose plan it is: the strategy's name, or that of one of its ways."""
    arenas: tuple[Arena, ...] = ()
    """The pools of all regions, with what is where in them."""
    arena: str = "call"
    """How long arenas last, as asked for."""
    kept_bytes: int = 0
    """Bytes of arenas that are held between calls too, for each call that may run at a time."""
    outside: tuple[Outside, ...] = ()
    """The storages of the main body that lie in no arena, where there were to be arenas."""

    @property
    def is_exact(self) -> bool:
        """True if the bytes hold for every call, not only at the hints."""
        return not self.hints

    @property
    def ratio(self) -> float:
        """Peak over lower bound: 1.0 is the best there is."""
        return self.peak_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0


def report(
    strategy: str,
    freed: Program,
    planned: Program,
    winner: str = "",
    winners: Mapping[str, str] | None = None,
    *,
    arena: str = "call",
) -> PlanReport:
    """The numbers of ``planned``, made from ``freed``: the same program with frees and no reuse.

    Args:
        strategy: What was asked for.
        freed: The program before its storage was planned.
        planned: The program.
        winner: The way of planning that it came from.
        winners: The planner of each of its pools, by name.
        arena: How long arenas last.
    """
    sizes = sizes_of(planned)
    arenas = arenas_of(planned, sizes, winners)
    main, before = planned.region, freed.region
    liveness = Liveness(main, planned)
    count = _Count()
    count.add(main, liveness, sizes)
    for path, _, region in walk_regions(planned):
        if path:
            count.add(region, Liveness(region, planned), sizes)
    kept = kept_pools(planned) if arena == "kept" else ()
    kept_bytes = sum(sizes.of(name) for name in kept)
    planned_peak = peak(held_bytes(main, liveness, planned, sizes, besides=kept))
    return PlanReport(
        strategy=strategy,
        buffers=count.buffers,
        allocations=count.allocations,
        reuses=count.reuses,
        total_bytes=count.nbytes,
        unplanned_peak_bytes=peak(held_bytes(before, Liveness(before, freed), freed, sizes)),
        peak_bytes=planned_peak + kept_bytes,
        lower_bound_bytes=peak(needed_bytes(main, liveness, planned, sizes)),
        hints=FrozenMap(dict(sorted(sizes.taken.items()))),
        assumed=tuple(sorted(sizes.assumed)),
        winner=winner or strategy,
        arenas=arenas,
        arena=arena,
        kept_bytes=kept_bytes,
        outside=_outside(freed, planned, sizes, arena) if strategy == "pool" else (),
    )


def _outside(freed: Program, program: Program, sizes: Sizes, arena: str) -> tuple[Outside, ...]:
    judge = Judge(program.region, program, is_kept=arena == "kept")
    # What could be inside and is not: the planner chose so, if it was asked at all.
    otherwise = "would be alone in its arena, or make it raise the peak"
    if freed is program:
        otherwise = "is outside in the program, which was planned before"
    return tuple(
        Outside(
            first.owner,
            sizes.of(first.owner),
            judge.why_outside(chain) or otherwise,
        )
        for first, chain in judge.chains.items()
        if first.is_owned and not first.is_pool and first.pool is None
    )


@dataclass(slots=True)
class _Count:
    """Sums over all regions of a program."""

    buffers: int = 0
    allocations: int = 0
    reuses: int = 0
    nbytes: int = 0

    def add(self, region: Region, liveness: Liveness, sizes: Sizes) -> None:
        """Counts one region, those inside it not included."""
        owned = [life for life in liveness.owned() if not life.is_pool]
        self.buffers += len(owned)
        self.nbytes += sum(sizes.of(life.owner) for life in owned)
        self.allocations += sum(Trait.ALLOCATES in n.traits for n in region.body)
        self.reuses += sum(Trait.RETAKES in n.traits for n in region.body)
