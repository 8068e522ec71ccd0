"""Figures of a plan, where it puts what, and the examiner of plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.lines import FrozenMap, SymbolKind, walk_regions
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.traits import is_slice
from wrapper_ir.planning.arenas import Judge
from wrapper_ir.planning.kept import kept_pools
from wrapper_ir.planning.offsets import PlanError, check_offsets
from wrapper_ir.planning.offsets.intervals import Problem
from wrapper_ir.planning.sizes import Sizes, held_bytes, held_spans, nbytes_of, needed_bytes, peak

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from wrapper_ir.lines import Path, Program, Region, SymbolInfo


# Placement of buffers in pools, read off the lines of a planned program, whoever planned it.
#
# :func:`arenas_of` is for reports. :func:`check_plan` is the planner's examiner: it takes a plan's
# word for nothing, works out every place from the lines at several values of the symbols, and lets
# the checker of offsets look for collisions.

_UNKNOWN_SIZE: Final = 48


@dataclass(frozen=True, slots=True)
class Slice:
    """A storage in an arena; numbers are at the hints where sizes are symbolic."""

    name: str
    """The buffer that is put there; it may go on under other names."""
    offset: int
    nbytes: int
    start: int
    """The line of the region that makes it."""
    end: int
    """The line that ends it; the number of lines where none does."""


@dataclass(frozen=True, slots=True)
class Arena:
    """An arena and what is where in it; numbers are at the hints where sizes are symbolic."""

    name: str
    device: str
    nbytes: int
    lower_bound: int
    """The most bytes alive at once of what is in it."""
    winner: str
    """The planner that placed what is in it; empty where the program came so."""
    slices: tuple[Slice, ...]


def arenas_of(
    program: Program, sizes: Sizes, winners: Mapping[str, str] | None = None
) -> tuple[Arena, ...]:
    """The arenas of all regions, in the order of the text."""
    return tuple(
        _arena(pool, slices, region, program, sizes, (winners or {}).get(pool.owner, ""))
        for _, _, region in walk_regions(program)
        for pool, slices in _pools(region, program)
    )


def check_plan(program: Program) -> None:
    """Checks that no two slices which are alive at one time share a byte, and all lie within.

    Symbolic places are looked at where the symbols have their hints, are as small as can be, and at
    odd larger values.

    Raises:
        PlanError: a slice is misplaced; the error has the path of the region's line.
    """
    as_program(program, "check_plan")
    for scale, offset in ((1, 0), (0, 0), (7, 3), (64, 17)):
        sizes = Sizes(program)
        for name, info in program.symbols.items():
            if info.kind is SymbolKind.INT and (scale, offset) != (1, 0):
                sizes.know(name, _within(info, scale * (info.hint or _UNKNOWN_SIZE) + offset))
        sizes.compute(program)
        for path, _, region in walk_regions(program):
            for pool, slices in _pools(region, program):
                _check(_arena(pool, slices, region, program, sizes), path)
        if not program.symbols:
            return


def _check(arena: Arena, path: Path) -> None:
    intervals = [(s.start, s.end, s.nbytes) for s in arena.slices]
    offsets = [s.offset for s in arena.slices]
    try:
        check_offsets(intervals, offsets, height=arena.nbytes)
    except PlanError as error:
        names = ", ".join(f"{n} is %{s.name}" for n, s in enumerate(arena.slices[:20]))
        raise PlanError(
            number=error.fields["number"],
            why=error.fields["why"],
            path=path or None,
            hint=f"in %{arena.name}, where {names}",
        ) from error


def _within(info: SymbolInfo, value: int) -> int:
    if info.upper is not None:
        value = min(value, info.upper)
    return value if info.lower is None else max(value, info.lower)


def _pools(region: Region, program: Program) -> Iterator[tuple[Life, list[tuple[Life, Life]]]]:
    """The pools of a region, each with its slices: the first and the last life of each."""
    if not any(Trait.SLICES in line.traits for line in region.body):
        return
    liveness = Liveness(region, program)
    found: dict[Life, list[tuple[Life, Life]]] = {}
    for life in liveness.lives:
        if life.is_pool:
            found[life] = []
        elif life.pool is not None and life.before is None:
            found[life.pool].append((life, liveness.chains[life][-1]))
    yield from found.items()


def _arena(
    pool: Life,
    slices: list[tuple[Life, Life]],
    region: Region,
    program: Program,
    sizes: Sizes,
    winner: str = "",
) -> Arena:
    layouts = program.buffers
    made = []
    for first, last in slices:
        line = region.body[first.start]
        offset = sizes.value(line.offset) if is_slice(line) else 0
        nbytes = sizes.value(nbytes_of(layouts[first.owner]))
        end = len(region.body) if last.end is None else last.end
        made.append(Slice(first.owner, offset, nbytes, first.start, end))
    bound = Problem([(s.start, s.end, s.nbytes) for s in made], 1).lower_bound
    layout = layouts[pool.owner]
    nbytes = sizes.value(nbytes_of(layout))
    return Arena(pool.owner, str(layout.device), nbytes, bound, winner, tuple(made))


# The report.


@dataclass(frozen=True, slots=True)
class Outside:
    """A storage in no arena; its bytes are at the hints where sizes are symbolic."""

    name: str
    """The buffer that it begins with; it may go on under other names."""
    nbytes: int
    reason: str
    """Why, in words that go on from its name."""


class Holding(StrEnum):
    """A reason why storage is held while the peak is reached."""

    DONATED = "inputs that the caller gives up, until their last use"
    RESULT = "results"
    LATER = "needed by a later line"
    LINE = "this line alone needs it still"
    REGION = "inside the line's regions"


@dataclass(frozen=True, slots=True)
class Held:
    """Storage that is held while the peak is reached."""

    name: str
    """The buffer that it is then; the line's path for what is held inside its regions."""
    nbytes: int
    """At the hints where sizes are symbolic."""
    why: Holding


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
    peak_at: str = ""
    """Path of the first line of the main body that holds most; empty where nothing is held."""
    at_peak: tuple[Held, ...] = ()
    """What is held then, the largest first; with ``kept_bytes`` it adds up to ``peak_bytes``."""

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
    sizes = Sizes(planned).compute(planned)
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
    peak_at, at_peak = _at_peak(planned, liveness, sizes, kept)
    return PlanReport(
        strategy=strategy,
        buffers=count.buffers,
        allocations=count.allocations,
        reuses=count.reuses,
        total_bytes=count.nbytes,
        unplanned_peak_bytes=peak(held_bytes(before, Liveness(before, freed), freed, sizes)),
        peak_bytes=sum(each.nbytes for each in at_peak) + kept_bytes,
        lower_bound_bytes=peak(needed_bytes(main, liveness, planned, sizes)),
        hints=FrozenMap(dict(sorted(sizes.taken.items()))),
        assumed=tuple(sorted(sizes.assumed)),
        winner=winner or strategy,
        arenas=arenas,
        arena=arena,
        kept_bytes=kept_bytes,
        outside=_outside(freed, planned, sizes, arena) if strategy == "pool" else (),
        peak_at=peak_at,
        at_peak=at_peak,
    )


def _at_peak(
    program: Program, liveness: Liveness, sizes: Sizes, besides: Container[str]
) -> tuple[str, tuple[Held, ...]]:
    """Return where the main body holds most, and what is held there."""
    region = program.region
    held = held_bytes(region, liveness, program, sizes, besides)
    most = peak(held)
    if not most:
        return "", ()
    at = held.index(most)
    found = [
        Held(life.owner, sizes.of(life.first.owner), _why_held(life, at))
        for life, start, end in held_spans(region, liveness, besides)
        if max(start, 0) <= at < end
    ]
    path = f"body[{at}]"
    inside = most - sum(each.nbytes for each in found)
    if inside > 0:
        found.append(Held(path, inside, Holding.REGION))
    return path, tuple(sorted(found, key=lambda each: (-each.nbytes, each.name)))


def _why_held(life: Life, at: int) -> Holding:
    if life.leaves:
        return Holding.RESULT
    if life.is_donated:
        return Holding.DONATED
    later = life.was_taken or life.last_use > at
    return Holding.LATER if later else Holding.LINE


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
