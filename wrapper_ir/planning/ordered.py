"""Ends of storage that several streams work on.

Memory goes back to the stream that it was allocated on, which may use it for something else at
once. So storage ends where that stream has waited for what the others do with it; where it never
does, the allocator has to be told whom to wait for.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from wrapper_ir.analysis.ordering import Clocks, touch

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Life, Liveness
    from wrapper_ir.lines import Program, Region


class OrderedEnd(NamedTuple):
    """Behind which line a storage can end, and which streams are not done with it then."""

    position: int
    after: tuple[int, ...] = ()


def ordered_ends(region: Region, liveness: Liveness, program: Program) -> dict[Life, OrderedEnd]:
    """The ends of what several streams work on; of all else nothing is said.

    Args:
        region: Lines whose missing ends are to be found.
        liveness: Its lives.
        program: The program it is from.
    """
    if not program.streams:
        return {}
    clocks = Clocks(program)
    #: The last line on each stream that touches a storage, by its position counted from 1.
    last: defaultdict[Life, dict[int, int]] = defaultdict(dict)
    ending: defaultdict[int, list[Life]] = defaultdict(list)
    for life in liveness.lives:
        ending[life.last_use].append(life)
    found: dict[Life, OrderedEnd] = {}
    waiting: list[Life] = []
    for index, line in enumerate(region.body):
        work = touch(line, program)
        clocks.step(line, index + 1)
        for name in (*work.reads, *work.writes, *work.made):
            for life in liveness.of(name):
                last[life][work.stream] = index + 1
        for life in (*waiting, *ending[index]):
            uses = last[life].items()
            left = tuple(s for s, at in uses if not clocks.sees(life.stream, s, at))
            if life.last_use == index:
                found[life] = OrderedEnd(index, left)
            elif not left:
                found[life] = OrderedEnd(index)
        waiting = [life for life in (*waiting, *ending[index]) if found[life].after]
    return found
