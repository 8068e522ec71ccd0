"""The report of a plan: its figures, arenas and picture; and a checker of plans."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

from wrapper_ir.analysis.kept import kept_pools
from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.analysis.proof import within
from wrapper_ir.lines import FrozenMap, Path, Program, Region, SymbolKind, walk_regions
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.traits import is_slice
from wrapper_ir.planning.arenas import Judge
from wrapper_ir.planning.intervals import PlanError, Problem, check_offsets
from wrapper_ir.planning.offsets import assign_offsets
from wrapper_ir.planning.sizes import Sizes, held_bytes, held_spans, nbytes_of, needed_bytes, peak

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping


# Placement in pools, read from the lines of a planned program, whoever planned it.
#
# :func:`arenas_of` is for reports. :func:`check_plan` does not trust the planner: it evaluates all
# offsets from the lines, for several values of the symbols, and runs the checker of offsets.

_UNKNOWN_SIZE: Final = 48


@dataclass(frozen=True, slots=True)
class Slice:
    """A storage in an arena. Symbolic numbers are taken at the hints."""

    name: str
    """The buffer allocated there; others may take over its storage."""
    offset: int
    nbytes: int
    start: int
    """The line of the region that allocates it."""
    end: int
    """The line that ends it; the number of lines if there is none."""


@dataclass(frozen=True, slots=True)
class Arena:
    """An arena and its slices. Symbolic numbers are taken at the hints."""

    name: str
    device: str
    nbytes: int
    lower_bound: int
    """The most bytes of its slices alive at once."""
    winner: str
    """The planner that placed the slices; empty if the program already had the pool."""
    slices: tuple[Slice, ...]


def arenas_of(
    program: Program, sizes: Sizes, winners: Mapping[str, str] | None = None
) -> tuple[Arena, ...]:
    """Return the arenas of all regions, in the order of the text."""
    return tuple(
        _arena(pool, slices, region, program, sizes, (winners or {}).get(pool.owner, ""))
        for _, _, region in walk_regions(program)
        for pool, slices in _pools(region, program)
    )


def check_plan(program: Program) -> None:
    """Check that slices alive at the same time share no byte and lie within their pool.

    Symbolic offsets are evaluated with the symbols at their hints, as small as possible, and at odd
    larger values.

    Raises:
        PlanError: A slice is misplaced; the error has the path of the region's line.
    """
    as_program(program, "check_plan")
    for scale, offset in ((1, 0), (0, 0), (7, 3), (64, 17)):
        sizes = Sizes(program)
        for name, info in program.symbols.items():
            if info.kind is SymbolKind.INT and (scale, offset) != (1, 0):
                value = scale * (info.hint or _UNKNOWN_SIZE) + offset
                sizes.know(name, within((info.lower, info.upper), value))
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
        hint = f"in %{arena.name}, where {names}"
        raise PlanError(**error.fields, path=path or None, hint=hint) from error


def _pools(region: Region, program: Program) -> Iterator[tuple[Life, list[tuple[Life, Life]]]]:
    """Yield the pools of a region, each with the first and the last life of its slices."""
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
    """A storage in no arena. Symbolic bytes are taken at the hints."""

    name: str
    """The buffer that it begins with; others may take over its storage."""
    nbytes: int
    reason: str
    """The reason, as a predicate that follows the name."""


class Holding(StrEnum):
    """A reason why storage is held at the peak."""

    DONATED = "inputs that the caller gives up, until their last use"
    RESULT = "results"
    LATER = "needed by a later line"
    LINE = "this line alone needs it still"
    REGION = "inside the line's regions"


@dataclass(frozen=True, slots=True)
class Held:
    """Storage that is held at the peak."""

    name: str
    """Its buffer at that line; for storage inside nested regions, the line's path."""
    nbytes: int
    """Symbolic bytes are taken at the hints."""
    why: Holding


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Figures of a plan. Symbolic bytes are taken at ``hints``.

    They cover the storage that the program owns: its allocations and the results of library ops.
    Inputs, constants and workspaces inside ops are not counted. A line with regions counts with the
    peak of the largest of them.
    """

    strategy: str
    buffers: int
    """Names that own storage; each reuse counts as one more."""
    allocations: int
    """Allocations that the plan makes, pools included."""
    reuses: int
    """Storage taken over under another name, reuses by the front end included."""
    total_bytes: int
    """Bytes of all buffers: the program's use if nothing were ever freed or reused."""
    unplanned_peak_bytes: int
    """Peak bytes if storage is freed after its last use and the plan reuses nothing."""
    peak_bytes: int
    """Peak bytes under the plan."""
    lower_bound_bytes: int
    """The most bytes needed at once by any plan for these lines in this order."""
    hints: FrozenMap[int] = field(default_factory=FrozenMap)
    """The values used for symbols that sizes depend on; empty if all sizes are known."""
    assumed: tuple[str, ...] = ()
    """The symbols among them that have no hint, so that a default was used."""
    winner: str = ""
    """The method that made the plan: the strategy's name, or that of one of its variants."""
    arenas: tuple[Arena, ...] = ()
    """The pools of all regions."""
    arena: str = "call"
    """The lifetime of arenas that was requested."""
    kept_bytes: int = 0
    """Bytes of arenas held between calls, for each concurrent call."""
    outside: tuple[Outside, ...] = ()
    """With the strategy ``pool``, the storages of the main body that are in no arena."""
    peak_at: str = ""
    """Path of the first line of the main body at the peak; empty if nothing is held."""
    at_peak: tuple[Held, ...] = ()
    """Storage held at that line, largest first; with ``kept_bytes`` it sums to ``peak_bytes``."""

    @property
    def is_exact(self) -> bool:
        """True if the bytes hold for every call, not only at the hints."""
        return not self.hints

    @property
    def ratio(self) -> float:
        """Peak over lower bound: 1.0 is optimal."""
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
    """Return the figures of a plan. ``freed`` is the program with its frees, before planning."""
    sizes = Sizes(planned).compute(planned)
    arenas = arenas_of(planned, sizes, winners)
    main, before = planned.region, freed.region
    liveness = Liveness(main, planned)
    regions = [region for _, _, region in walk_regions(planned)]
    lives = [life for region in regions for life in Liveness(region, planned).owned()]
    owned = [life.owner for life in lives if not life.is_pool]
    traits = [line.traits for region in regions for line in region.body]
    kept = kept_pools(planned) if arena == "kept" else ()
    kept_bytes = sum(sizes.of(name) for name in kept)
    peak_at, at_peak = _at_peak(planned, liveness, sizes, kept)
    return PlanReport(
        strategy=strategy,
        buffers=len(owned),
        allocations=sum(Trait.ALLOCATES in each for each in traits),
        reuses=sum(Trait.RETAKES in each for each in traits),
        total_bytes=sum(map(sizes.of, owned)),
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
    """Return the path of the main body's peak and the storage held there."""
    region = program.region
    held = held_bytes(region, liveness, program, sizes, besides)
    most = peak(held)
    if not most:
        return "", ()
    at = held.index(most)
    spans = held_spans(region, liveness, besides)
    there = [life for life, start, end in spans if max(start, 0) <= at < end]
    found = [Held(x.owner, sizes.of(x.first.owner), _why_held(x, at)) for x in there]
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
    # The reason for storage that could be in an arena but is not.
    otherwise = "would be alone in its arena, or make it raise the peak"
    if freed is program:
        otherwise = "is outside in the program, which was planned before"
    return tuple(
        Outside(first.owner, sizes.of(first.owner), judge.why_outside(chain) or otherwise)
        for first, chain in judge.chains.items()
        if first.is_owned and not first.is_pool and first.pool is None
    )


# A picture of a plan: time across, addresses up, one rectangle for each buffer.
#
# The picture is a self-contained SVG. Hovering over a rectangle shows the buffer's name, bytes,
# address and lines. Each arena has a panel, and so do the allocations outside arenas; their
# addresses are made up as an allocator might choose them, so only heights and times are meaningful.

_WIDTH: Final = 1200
_HEIGHT: Final = 420
_LEFT: Final = 90
_TOP: Final = 34
_GAP: Final = 34
_LEAST: Final = 0.6
"""The smallest side of a rectangle in pixels, so that it stays visible."""
_LABEL_WIDTH: Final = 6.2
"""The width of a letter in pixels."""


class Panel(NamedTuple):
    """A piece of memory and the buffers in it."""

    title: str
    region: str
    """The path of the line that holds the region; empty for the main body."""
    nbytes: int
    length: int
    lower_bound: int
    boxes: tuple[Slice, ...]


def picture(program: Program) -> str:
    """Draw the memory of a planned program over time; return the text of an SVG file.

    Symbolic sizes are taken at the hints.
    """
    drawn = panels(as_program(program, "picture"))
    height = _TOP + sum(_HEIGHT + _GAP + 20 for _ in drawn) + 10
    parts = [
        "<style>rect.b:hover{stroke:#000;stroke-width:2}text{pointer-events:none}</style>",
        _tag("rect", width="100%", height="100%", fill="#fff"),
        _tag("text", escape(program.name), x=10, y=20, font_size=14),
    ]
    for number, panel in enumerate(drawn):
        parts += _drawn(panel, _TOP + 20 + number * (_HEIGHT + _GAP + 20))
    size = {"width": _LEFT + _WIDTH + 20, "height": height}
    fonts = {"font_family": "sans-serif", "font_size": 11}
    inside = "\n".join(["", *parts, ""])
    return _tag("svg", inside, xmlns="http://www.w3.org/2000/svg", **size, **fonts) + "\n"


def _tag(name: str, inside: str = "", /, **attributes: object) -> str:
    """Return an SVG element."""
    words = [f'{key.strip("_").replace("_", "-")}="{value}"' for key, value in attributes.items()]
    start = " ".join((f"<{name}", *words))
    return f"{start}>{inside}</{name}>" if inside else f"{start}/>"


def panels(program: Program) -> list[Panel]:
    """Return a planned program's memory piece by piece, without those that hold nothing."""
    return [panel for panel in _panels(as_program(program, "panels")) if panel.boxes]


def _panels(program: Program) -> Iterable[Panel]:
    sizes = Sizes(program).compute(program)
    arenas = {arena.name: arena for arena in arenas_of(program, sizes)}
    for path, _, region in walk_regions(program):
        where = f" at {path}" if path else ""
        liveness = Liveness(region, program)
        length = len(region.body)
        for life in liveness.lives:
            arena = arenas.get(life.owner) if life.is_pool else None
            if arena is not None:
                title = f"%{arena.name} on {arena.device}{where}"
                yield Panel(title, str(path), arena.nbytes, length, arena.lower_bound, arena.slices)
        yield _allocations(region, liveness, sizes, (f"allocated by themselves{where}", str(path)))


def _allocations(
    region: Region, liveness: Liveness, sizes: Sizes, titles: tuple[str, str]
) -> Panel:
    """Draw allocations outside pools, stacked as closely as possible."""
    length = len(region.body)
    chains: dict[Life, list[Slice]] = {}
    for life in liveness.owned():
        if life.pool is None and not life.is_pool:
            end = length if life.end is None else life.end
            box = Slice(life.owner, 0, sizes.of(life.owner), life.start, end)
            chains.setdefault(life.first, []).append(box)
    spans = [(first.start, boxes[-1].end, sizes.of(first.owner)) for first, boxes in chains.items()]
    plan = assign_offsets(spans, 1)
    pairs = zip(chains.values(), plan.offsets, strict=True)
    placed = tuple(replace(box, offset=offset) for boxes, offset in pairs for box in boxes)
    return Panel(*titles, plan.height, length, plan.lower_bound, placed)


def _drawn(panel: Panel, top: int) -> list[str]:
    across, up = _WIDTH / max(panel.length, 1), _HEIGHT / max(panel.nbytes, 1)
    floor = top + _HEIGHT
    title = escape(f"{panel.title}: {panel.nbytes:,} bytes, {len(panel.boxes)} buffers")
    frame = {"x": _LEFT, "y": top, "width": _WIDTH, "height": _HEIGHT}
    parts = [_tag("text", title, x=_LEFT, y=top - 6, font_size=12)]
    parts.append(_tag("rect", **frame, fill="#f4f4f4", stroke="#999"))
    for quarter in range(5):
        value, y = f"{panel.nbytes * quarter // 4:,}", floor - _HEIGHT * quarter / 4 + 4
        parts.append(_tag("text", value, x=_LEFT - 6, y=f"{y:.1f}", text_anchor="end"))
        line, x = str(panel.length * quarter // 4), _LEFT + _WIDTH * quarter / 4
        parts.append(_tag("text", line, x=f"{x:.1f}", y=floor + 14, text_anchor="middle"))
    # Wider boxes first, so that small ones are not hidden.
    for box in sorted(panel.boxes, key=lambda box: (box.start - box.end, box.start, box.offset)):
        parts += _rectangle(box, across, up, floor)
    bound = f"M{_LEFT} {floor - panel.lower_bound * up:.2f}h{_WIDTH}"
    tip = f"<title>lower bound: {panel.lower_bound:,} bytes</title>"
    return [*parts, _tag("path", tip, d=bound, stroke="#c00", stroke_dasharray="6 4")]


def _rectangle(box: Slice, across: float, up: float, floor: int) -> list[str]:
    x, width = _LEFT + box.start * across, max((box.end - box.start) * across, _LEAST)
    height = max(box.nbytes * up, _LEAST)
    y = floor - box.offset * up - height
    tip = f"%{box.name}\n{box.nbytes:,} bytes at {box.offset:,}\nlines {box.start} to {box.end}"
    hue = zlib.crc32(box.name.encode()) % 360
    at = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}
    colours = {"fill": f"hsl({hue},55%,70%)", "stroke": f"hsl({hue},45%,45%)"}
    title = f"<title>{escape(tip)}</title>"
    parts = [_tag("rect", title, class_="b", **at, **colours, stroke_width=0.4)]
    if height >= 10 and width >= _LABEL_WIDTH * (len(box.name) + 1):
        middle, base = f"{x + width / 2:.1f}", f"{y + height / 2 + 4:.1f}"
        parts.append(_tag("text", escape(box.name), x=middle, y=base, text_anchor="middle"))
    return parts
