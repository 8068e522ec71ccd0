"""Bytes alive at each line of a region."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.lines import regions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines import Program, Region
    from wrapper_ir.planning.sizes import Sizes

_BLOCK = 256


def held_bytes(
    region: Region,
    liveness: Liveness,
    program: Program,
    sizes: Sizes,
    besides: Container[str] = (),
) -> list[int]:
    """Bytes of storage that is held while each line runs, until a line ends it.

    Storage that goes on under another name keeps its size. A line with regions holds what the
    largest of them needs besides. Slices of a pool are in the pool. Buffers named in ``besides``
    are not counted.
    """

    def span(life: Life) -> tuple[int, int]:
        end = life.end
        return life.start, len(region.body) if end is None else end

    return _bytes(
        region,
        [o for o in liveness.owned() if o.pool is None and o.owner not in besides],
        span,
        lambda life: sizes.of(life.first.owner),
        lambda inner: peak(held_bytes(inner, Liveness(inner, program), program, sizes)),
    )


def needed_bytes(region: Region, liveness: Liveness, program: Program, sizes: Sizes) -> list[int]:
    """Bytes that any plan holds while each line runs: of buffers up to their last use."""

    def span(life: Life) -> tuple[int, int]:
        if life.was_taken:
            return life.start, life.end or life.start
        return life.start, len(region.body) if life.leaves else life.last_use + 1

    return _bytes(
        region,
        [life for life in liveness.owned() if not life.is_pool],
        span,
        lambda life: sizes.of(life.owner),
        lambda inner: peak(needed_bytes(inner, Liveness(inner, program), program, sizes)),
    )


def _bytes(
    region: Region,
    lives: Iterable[Life],
    span: Callable[[Life], tuple[int, int]],
    size: Callable[[Life], int],
    inside: Callable[[Region], int],
) -> list[int]:
    changes = [0] * (len(region.body) + 1)
    made: dict[int, int] = {}
    for life in lives:
        start, end = span(life)
        nbytes = size(life)
        changes[start] += nbytes
        made[start] = made.get(start, 0) + nbytes
        changes[max(end, start)] -= nbytes
    held = list(accumulate(changes[:-1]))
    for position, line in enumerate(region.body):
        inner = regions_of(line)
        if inner:
            # The line's own results are made inside its regions, and counted there until then.
            before = held[position] - made.get(position, 0)
            held[position] = max(held[position], before + max(inside(r) for _, r in inner))
    return held


def peak(held: list[int]) -> int:
    """The largest of them, 0 where there is none."""
    return max(held, default=0)


class Heights:
    """Numbers by position, with the largest of a range and adding to a range.

    Blocks keep their largest number and what was added to them whole, so that both cost about the
    square root of the length.
    """

    def __init__(self, values: list[int]) -> None:
        self._values = list(values)
        starts = range(0, len(values), _BLOCK)
        self._top = [max(values[at : at + _BLOCK]) for at in starts]
        self._added = [0] * len(self._top)

    def largest(self, start: int, end: int) -> int:
        """The largest number in ``start <= position < end``; 0 for an empty range."""
        found = 0
        for block, low, high in _pieces(start, end):
            whole = high - low == _BLOCK
            top = self._top[block] if whole else max(self._values[low:high]) + self._added[block]
            found = max(found, top)
        return found

    def add(self, start: int, end: int, amount: int) -> None:
        """Adds ``amount`` to each number in ``start <= position < end``."""
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
    """A range cut at the borders of blocks: block, first position, position behind the last."""
    return [
        (block, max(start, block * _BLOCK), min(end, (block + 1) * _BLOCK))
        for block in range(start // _BLOCK, -(-end // _BLOCK))
        if start < end
    ]
