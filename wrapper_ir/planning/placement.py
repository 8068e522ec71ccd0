"""Placement of buffers in pools, read off the lines of a planned program, whoever planned it.

:func:`arenas_of` is for reports. :func:`check_plan` is the planner's examiner: it takes a plan's
word for nothing, works out every place from the lines at several values of the symbols, and lets
the checker of offsets look for collisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.lines import (
    SymbolKind,
    walk,
    walk_regions,
)
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.given import as_program
from wrapper_ir.lines.traits import computes, is_slice
from wrapper_ir.planning.offsets import PlanError, check_offsets
from wrapper_ir.planning.offsets.intervals import Problem
from wrapper_ir.planning.sizes import Sizes, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wrapper_ir.lines import Path, Program, Region, SymbolInfo

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
        for _, region in _regions(program)
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
        compute_symbols(program, sizes)
        for path, region in _regions(program):
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


def _regions(program: Program) -> Iterator[tuple[Path, Region]]:
    for path, _, region in walk_regions(program):
        yield path, region


def _pools(region: Region, program: Program) -> Iterator[tuple[Life, list[tuple[Life, Life]]]]:
    """The pools of a region, each with its slices: the first and the last life of each."""
    if not any(Trait.SLICES in line.traits for line in region.body):
        return
    liveness = Liveness(region, program)
    last = {life.first: life for life in liveness.lives}
    found: dict[Life, list[tuple[Life, Life]]] = {}
    for life in liveness.lives:
        if life.is_pool:
            found[life] = []
        elif life.pool is not None and life.before is None:
            found[life.pool].append((life, last[life]))
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


def sizes_of(program: Program) -> Sizes:
    """Sizes at the hints that know what the program computes from other symbols."""
    sizes = Sizes(program)
    compute_symbols(program, sizes)
    return sizes


def compute_symbols(program: Program, sizes: Sizes) -> None:
    """Tells ``sizes`` the values of symbols that the program computes from others."""
    for _, line in walk(program):
        if computes(line):
            info = program.symbols.get(line.symbol)
            if info is not None and info.kind is SymbolKind.INT:
                value = sizes.scalar(line.value)
                if value is not None:
                    sizes.know(line.symbol, value)
