"""Bytes of buffers, as exact expressions and as numbers at the symbols' hints, and bytes over time.

Numbers at hints are for heuristics and reports. Only the expressions decide whether storage fits.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Self

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.analysis.proof import grows, within
from wrapper_ir.lines.expr import ceil_divided, free_symbols, product, substitute
from wrapper_ir.lines.traits import computes

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping


ASSUMED: Final = 8192
"""The value used for a symbol without a hint, clamped to the symbol's range."""


class Sizes:
    """Bytes of a program's buffers at the hints, and a record of the symbols they depend on."""

    def __init__(self, program: ir.Program) -> None:
        self._layouts: Mapping[str, ir.Layout] = program.buffers
        self._infos = program.symbols
        #: The value used for each symbol that occurs in a size.
        self.taken: dict[str, int] = {}
        #: The symbols among them that have no hint.
        self.assumed: set[str] = set()
        self._derived: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self._known: dict[ir.Dim, int] = {}

    def of(self, name: str) -> int:
        """Return the bytes that a buffer spans at the hints; 0 if it has no layout."""
        found = self._by_name.get(name)
        if found is None:
            layout = self._layouts.get(name)
            found = 0 if layout is None else self.value(nbytes_of(layout))
            self._by_name[name] = found
        return found

    def value(self, nbytes: ir.Dim) -> int:
        """Evaluate a number of bytes at the hints; at least 0."""
        if type(nbytes) is int:
            return nbytes
        found = self._known.get(nbytes)
        if found is None:
            found = self._known[nbytes] = max(self._at_hints(nbytes) or 0, 0)
        return found

    def scalar(self, value: ir.Scalar) -> int | None:
        """Evaluate an expression at the hints; return ``None`` if the value is not an integer."""
        if isinstance(value, sympy.Basic) and grows(value):
            return None
        return self._at_hints(value)

    def _at_hints(self, value: ir.Scalar) -> int | None:
        """Evaluate an expression; return ``None`` unless the value is an exact integer."""
        names = free_symbols(value)
        try:
            found = substitute(value, {name: self._take(name) for name in names})
        except ir.UnsupportedExprError:
            return None
        return found if type(found) is int else None

    def compute(self, program: ir.Program) -> Self:
        """Evaluate the symbols that the program computes from others, and return these sizes."""
        for _, line in ir.walk(program):
            info = program.symbols.get(line.symbol) if computes(line) else None
            if computes(line) and info is not None and info.kind is ir.SymbolKind.INT:
                value = self.scalar(line.value)
                if value is not None:
                    self.know(line.symbol, value)
        return self

    def know(self, name: str, value: int) -> None:
        """Set the value of a symbol, which takes the place of its hint."""
        self._derived[name] = value

    def _take(self, name: str) -> int:
        if name in self._derived:
            return self._derived[name]
        if name not in self.taken:
            info = self._infos.get(name, ir.SymbolInfo())
            if info.hint is None:
                self.assumed.add(name)
                self.taken[name] = within((info.lower, info.upper), ASSUMED)
            else:
                self.taken[name] = info.hint
        return self.taken[name]


class Rounded(Sizes):
    """Sizes rounded up as every allocator rounds, so that comparisons with arenas are fair."""

    def __init__(self, program: ir.Program) -> None:
        super().__init__(program)
        self._alignments = {name: alignment_of(of.device) for name, of in program.buffers.items()}

    def of(self, name: str) -> int:
        """Return the bytes of a buffer at the hints, a multiple of its device's alignment."""
        alignment = self._alignments.get(name, 1)  # a pool that is being planned has no layout yet
        return -(-super().of(name) // alignment) * alignment


def alignment_of(device: ir.Device) -> int:
    """Return the alignment of offsets in arenas on a device, in bytes."""
    return device.kind.memory.alignment


def nbytes_of(layout: ir.Layout) -> ir.Dim:
    """Return the bytes that a layout spans, multiplied out so that equal sizes compare equal."""
    if isinstance(layout.kind, ir.OpaqueKind):
        return _tiled(layout, layout.kind)
    extent = layout.extent if layout.is_static else _extent(layout)
    return extent * layout.dtype.itemsize


def _tiled(layout: ir.Layout, kind: ir.OpaqueKind) -> ir.Dim:
    """Return the bytes of an opaque layout, whose last sizes are rounded up to its tile."""
    declared = layout.device.kind.memory.layouts.get(kind.name)
    tile = () if declared is None else declared.tile
    tile = tile[max(len(tile) - layout.rank, 0) :]
    first = layout.rank - len(tile)
    rounded = (ceil_divided(s, n) * n for s, n in zip(layout.size[first:], tile, strict=True))
    return product((*layout.size[:first], *rounded, layout.dtype.itemsize))


@lru_cache(maxsize=65536)
def _extent(layout: ir.Layout) -> ir.Dim:
    return ir.dim(sympy.expand(layout.extent))


# Bytes alive at each line of a region.

_BLOCK = 256


def held_spans(
    region: ir.Region, liveness: Liveness, besides: Container[str] = ()
) -> list[tuple[Life, int, int]]:
    """Return the storages that are held, each with its first line and the line that ends it.

    Donated inputs are held until their last use. Slices are part of their pool. Buffers in
    ``besides`` are left out.
    """
    found = []
    for life in liveness.lives:
        if not (life.is_owned or life.is_donated) or life.pool is not None or life.owner in besides:
            continue
        start, end = life.start, life.end
        if life.is_donated:
            start, end = _while_donated(life, region)
        found.append((life, start, len(region.body) if end is None else end))
    return found


def held_bytes(
    region: ir.Region,
    liveness: Liveness,
    program: ir.Program,
    sizes: Sizes,
    besides: Container[str] = (),
) -> list[int]:
    """Return the bytes of storage held while each line runs (:func:`held_spans`).

    Donated inputs count, because they can bring the peak near while the program itself has
    allocated little. Storage that is taken over keeps its size. A line with regions adds the peak
    of the largest of them.
    """
    return _bytes(
        region,
        held_spans(region, liveness, besides),
        lambda life: sizes.of(life.first.owner),
        lambda inner: peak(held_bytes(inner, Liveness(inner, program), program, sizes)),
    )


def needed_bytes(
    region: ir.Region, liveness: Liveness, program: ir.Program, sizes: Sizes
) -> list[int]:
    """Return the bytes that any plan holds while each line runs: buffers up to their last use."""

    def span(life: Life) -> tuple[int, int]:
        if life.is_donated:
            return _while_donated(life, region)
        if life.was_taken:
            return life.start, life.end or life.start
        return life.start, len(region.body) if life.leaves else life.last_use + 1

    lives = (life for life in liveness.lives if life.is_owned or life.is_donated)
    return _bytes(
        region,
        [(life, *span(life)) for life in lives if not life.is_pool],
        lambda life: sizes.of(life.owner),
        lambda inner: peak(needed_bytes(inner, Liveness(inner, program), program, sizes)),
    )


def _while_donated(life: Life, region: ir.Region) -> tuple[int, int]:
    """Return where an input that the caller gives up is held: until it is taken over or let go."""
    if life.leaves:
        return life.start, len(region.body)
    return life.start, life.last_use + 1 if life.end is None else life.end


def _bytes(
    region: ir.Region,
    spans: Iterable[tuple[Life, int, int]],
    size: Callable[[Life], int],
    inside: Callable[[ir.Region], int],
) -> list[int]:
    changes = [0] * (len(region.body) + 1)
    made: dict[int, int] = {}
    for life, start, end in spans:
        nbytes = size(life)
        changes[max(start, 0)] += nbytes
        made[start] = made.get(start, 0) + nbytes
        changes[max(end, start, 0)] -= nbytes
    held = list(accumulate(changes[:-1]))
    for position, line in enumerate(region.body):
        inner = ir.regions_of(line)
        if inner:
            # The line's own results are allocated inside its regions and counted there.
            before = held[position] - made.get(position, 0)
            held[position] = max(held[position], before + max(inside(r) for _, r in inner))
    return held


def peak(held: list[int]) -> int:
    """Return the maximum; 0 for an empty list."""
    return max(held, default=0)


class Heights:
    """A list of numbers with range maximum and range addition.

    Each block stores its maximum and what was added to it as a whole, so that both operations take
    time proportional to about the square root of the length.
    """

    def __init__(self, values: list[int]) -> None:
        self._values = list(values)
        starts = range(0, len(values), _BLOCK)
        self._top = [max(values[at : at + _BLOCK]) for at in starts]
        self._added = [0] * len(self._top)

    def largest(self, start: int, end: int) -> int:
        """Return the maximum over ``start <= position < end``; 0 for an empty range."""
        found = 0
        for block, low, high in _pieces(start, end):
            whole = high - low == _BLOCK
            top = self._top[block] if whole else max(self._values[low:high]) + self._added[block]
            found = max(found, top)
        return found

    def add(self, start: int, end: int, amount: int) -> None:
        """Add ``amount`` to each number in ``start <= position < end``."""
        for block, low, high in _pieces(start, end):
            if high - low == _BLOCK:
                self._added[block] += amount
                self._top[block] += amount
            else:
                self._values[low:high] = [v + amount for v in self._values[low:high]]
                first = block * _BLOCK
                inside = self._values[first : first + _BLOCK]
                self._top[block] = max(inside) + self._added[block]


def _pieces(start: int, end: int) -> list[tuple[int, int, int]]:
    """Split a range at block boundaries into tuples of block, first position, end position."""
    return [
        (block, max(start, block * _BLOCK), min(end, (block + 1) * _BLOCK))
        for block in range(start // _BLOCK, -(-end // _BLOCK))
        if start < end
    ]
