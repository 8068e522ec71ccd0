"""A picture of a plan: time across, addresses up, one rectangle for each buffer.

The picture is a self-contained SVG. Hovering over a rectangle shows the buffer's name, bytes,
address and lines. Each arena has a panel, and so do the allocations outside arenas; their addresses
are made up as an allocator might choose them, so only heights and times are meaningful there.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.lines import walk_regions
from wrapper_ir.lines.fields import as_program
from wrapper_ir.planning.offsets import assign_offsets
from wrapper_ir.planning.report import Slice, arenas_of
from wrapper_ir.planning.sizes import Sizes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import Program, Region

_WIDTH: Final = 1200
_HEIGHT: Final = 420
_LEFT: Final = 90
_TOP: Final = 34
_GAP: Final = 34
_LEAST: Final = 0.6
"""The smallest side of a rectangle in pixels, so that it stays visible."""
_LABEL_WIDTH: Final = 6.2
"""The width of a letter in pixels."""


class _Panel(NamedTuple):
    """A piece of memory and the buffers in it."""

    title: str
    nbytes: int
    length: int
    lower_bound: int
    boxes: tuple[Slice, ...]


def picture(program: Program) -> str:
    """Draw the memory of a planned program over time; return the text of an SVG file.

    Symbolic sizes are taken at the hints.
    """
    panels = [panel for panel in _panels(as_program(program, "picture")) if panel.boxes]
    height = _TOP + sum(_HEIGHT + _GAP + 20 for _ in panels) + 10
    parts = [
        "<style>rect.b:hover{stroke:#000;stroke-width:2}text{pointer-events:none}</style>",
        _tag("rect", width="100%", height="100%", fill="#fff"),
        _tag("text", escape(program.name), x=10, y=20, font_size=14),
    ]
    for number, panel in enumerate(panels):
        parts += _drawn(panel, _TOP + 20 + number * (_HEIGHT + _GAP + 20))
    return (
        _tag(
            "svg",
            "\n".join(["", *parts, ""]),
            xmlns="http://www.w3.org/2000/svg",
            width=_LEFT + _WIDTH + 20,
            height=height,
            font_family="sans-serif",
            font_size=11,
        )
        + "\n"
    )


def _tag(name: str, inside: str = "", /, **attributes: object) -> str:
    """Return an SVG element."""
    words = [f'{key.strip("_").replace("_", "-")}="{value}"' for key, value in attributes.items()]
    start = " ".join((f"<{name}", *words))
    return f"{start}>{inside}</{name}>" if inside else f"{start}/>"


def _panels(program: Program) -> Iterable[_Panel]:
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
                yield _Panel(title, arena.nbytes, length, arena.lower_bound, arena.slices)
        yield _allocations(region, liveness, sizes, f"allocated by themselves{where}")


def _allocations(region: Region, liveness: Liveness, sizes: Sizes, title: str) -> _Panel:
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
    placed = tuple(
        replace(box, offset=offset)
        for boxes, offset in zip(chains.values(), plan.offsets, strict=True)
        for box in boxes
    )
    return _Panel(title, plan.height, length, plan.lower_bound, placed)


def _drawn(panel: _Panel, top: int) -> list[str]:
    across, up = _WIDTH / max(panel.length, 1), _HEIGHT / max(panel.nbytes, 1)
    floor = top + _HEIGHT
    title = escape(f"{panel.title}: {panel.nbytes:,} bytes, {len(panel.boxes)} buffers")
    frame = {"x": _LEFT, "y": top, "width": _WIDTH, "height": _HEIGHT}
    parts = [
        _tag("text", title, x=_LEFT, y=top - 6, font_size=12),
        _tag("rect", **frame, fill="#f4f4f4", stroke="#999"),
    ]
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
