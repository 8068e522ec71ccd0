"""Placement of buffers in pools, and a plan as a picture of it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.lines import SymbolKind, walk, walk_regions
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.traits import computes, is_slice
from wrapper_ir.planning.offsets import PlanError, assign_offsets, check_offsets
from wrapper_ir.planning.offsets.intervals import Problem
from wrapper_ir.planning.sizes import Sizes, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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


# A plan as a picture: time across, addresses up, a rectangle a buffer.
#
# The picture is SVG that stands by itself: hovering over a rectangle shows the buffer's name,
# bytes, address and lines. Each arena has a panel. What is allocated by itself has one too, with
# addresses made up as an allocator might choose them: only heights and times mean something there.

_WIDTH: Final = 1200
_HEIGHT: Final = 420
_LEFT: Final = 90
_TOP: Final = 34
_GAP: Final = 34
_LEAST: Final = 0.6
"""Pixels: what is smaller is drawn so, or it could not be seen."""
_LABEL_WIDTH: Final = 6.2
"""Pixels of a letter."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A buffer at its place; times are lines."""

    name: str
    offset: int
    nbytes: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Panel:
    """A memory and what is in it."""

    title: str
    nbytes: int
    length: int
    lower_bound: int
    boxes: tuple[_Box, ...]


def picture(program: Program) -> str:
    """The memory of a planned program over time, as the text of an SVG file.

    Sizes are taken at the hints where they are symbolic.
    """
    panels = [panel for panel in _panels(as_program(program, "picture")) if panel.boxes]
    height = _TOP + sum(_HEIGHT + _GAP + 20 for _ in panels) + 10
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" '
            f'height="{height}" font-family="sans-serif" font-size="11">'
        ),
        "<style>rect.b:hover{stroke:#000;stroke-width:2}text{pointer-events:none}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="10" y="20" font-size="14">{escape(program.name)}</text>',
    ]
    for number, panel in enumerate(panels):
        lines += _drawn(panel, _TOP + 20 + number * (_HEIGHT + _GAP + 20))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panels(program: Program) -> Iterable[_Panel]:
    sizes = sizes_of(program)
    arenas = {arena.name: arena for arena in arenas_of(program, sizes)}
    for path, _, region in walk_regions(program):
        where = f" at {path}" if path else ""
        liveness = Liveness(region, program)
        length = len(region.body)
        for life in liveness.lives:
            arena = arenas.get(life.owner) if life.is_pool else None
            if arena is not None:
                boxes = tuple(
                    _Box(s.name, s.offset, s.nbytes, s.start, s.end) for s in arena.slices
                )
                title = f"%{arena.name} on {arena.device}{where}"
                yield _Panel(title, arena.nbytes, length, arena.lower_bound, boxes)
        yield _allocations(region, liveness, sizes, f"allocated by themselves{where}")


def _allocations(region: Region, liveness: Liveness, sizes: Sizes, title: str) -> _Panel:
    """Draw allocations outside pools, stacked as closely as possible."""
    chains: dict[Life, list[Life]] = {}
    for life in liveness.owned():
        if life.pool is None and not life.is_pool:
            chains.setdefault(life.first, []).append(life)
    length = len(region.body)
    spans = [
        (first.start, _end(chain[-1], length), sizes.of(first.owner))
        for first, chain in chains.items()
    ]
    plan = assign_offsets(spans, 1, nodes=0)
    boxes = tuple(
        _Box(life.owner, offset, sizes.of(life.owner), life.start, _end(life, length))
        for chain, offset in zip(chains.values(), plan.offsets, strict=True)
        for life in chain
    )
    return _Panel(title, plan.height, length, plan.lower_bound, boxes)


def _end(life: Life, length: int) -> int:
    return length if life.end is None else life.end


def _drawn(panel: _Panel, top: int) -> list[str]:
    across = _WIDTH / max(panel.length, 1)
    up = _HEIGHT / max(panel.nbytes, 1)
    floor = top + _HEIGHT
    title = f"{panel.title}: {panel.nbytes:,} bytes, {len(panel.boxes)} buffers"
    lines = [
        f'<text x="{_LEFT}" y="{top - 6}" font-size="12">{escape(title)}</text>',
        (
            f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" '
            'fill="#f4f4f4" stroke="#999"/>'
        ),
    ]
    for quarter in range(5):
        value, at = panel.nbytes * quarter // 4, floor - _HEIGHT * quarter / 4
        lines.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:,}</text>')
        line = panel.length * quarter // 4
        at = _LEFT + _WIDTH * quarter / 4
        lines.append(f'<text x="{at:.1f}" y="{floor + 14}" text-anchor="middle">{line}</text>')
    # The wider ones first, so that nothing small is hidden.
    for box in sorted(panel.boxes, key=lambda box: (box.start - box.end, box.start, box.offset)):
        lines += _rectangle(box, across, up, floor)
    bound = floor - panel.lower_bound * up
    lines.append(
        f'<path d="M{_LEFT} {bound:.2f}h{_WIDTH}" stroke="#c00" stroke-dasharray="6 4">'
        f"<title>lower bound: {panel.lower_bound:,} bytes</title></path>"
    )
    return lines


def _rectangle(box: _Box, across: float, up: float, floor: int) -> list[str]:
    x, width = _LEFT + box.start * across, max((box.end - box.start) * across, _LEAST)
    height = max(box.nbytes * up, _LEAST)
    y = floor - box.offset * up - height
    tip = f"%{box.name}\n{box.nbytes:,} bytes at {box.offset:,}\nlines {box.start} to {box.end}"
    hue = zlib.crc32(box.name.encode()) % 360
    lines = [
        (
            f'<rect class="b" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="hsl({hue},55%,70%)" stroke="hsl({hue},45%,45%)" stroke-width="0.4">'
            f"<title>{escape(tip)}</title></rect>"
        )
    ]
    if height >= 10 and width >= _LABEL_WIDTH * (len(box.name) + 1):
        middle, base = x + width / 2, y + height / 2 + 4
        lines.append(
            f'<text x="{middle:.1f}" y="{base:.1f}" text-anchor="middle">{escape(box.name)}</text>'
        )
    return lines
