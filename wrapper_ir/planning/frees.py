"""Insertion of ``free`` lines, also for storage that several streams work on."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from wrapper_ir.analysis.liveness import BEFORE, Liveness
from wrapper_ir.analysis.ordering import Clocks, touch
from wrapper_ir.lines import Free, GraphRole, Probe, Region, When, map_regions
from wrapper_ir.lines.traits import shows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines import AnyLine, Program


def insert_frees(program: Program, *, free_inputs: bool | None = None) -> Program:
    """Insert a ``free`` after the last use of all storage that no line ends.

    Existing ends stay, results stay alive, and lines keep their order. Probes do not extend live
    ranges: a free goes behind the probes of the last use's outcome, and a later probe loses the
    buffers that are freed by then. Storage that several streams work on ends where its own stream
    has waited for the others; if it never does, the ``free`` names the streams still at work.

    Args:
        program: A program that verifies; its stage does not change.
        free_inputs: Also drop inputs after their last use, so that the caller's memory can be freed
            before the program ends. By default this is done only in training graphs, whose inputs
            are saved activations.
    """
    if free_inputs is None:
        free_inputs = program.role is not GraphRole.INFERENCE
    region = _with_frees(program.region, program, free_params=free_inputs)
    return program.replace(body=region.body)


def _with_frees(region: Region, program: Program, *, free_params: bool) -> Region:
    liveness = Liveness(region, program)
    behind: defaultdict[int, list[Life]] = defaultdict(list)
    ordered = ordered_ends(region, liveness, program)
    for life in liveness.lives:
        if life.end is None and not life.leaves and (life.is_owned or free_params):
            end = ordered.get(life)
            behind[life.last_use if end is None else end.position].append(life)
    body: list[AnyLine] = []
    waiting: list[Life] = behind[BEFORE]
    ended: set[Life] = set()
    for position, line in enumerate(region.body):
        if waiting and not (shows(line) and line.when is When.AFTER):
            body.extend(_frees(waiting, ordered))
            ended.update(waiting)
            waiting = []
        new = map_regions(line, lambda inner: _with_frees(inner, program, free_params=False))
        body.append(_seeing(new, liveness, ended) if shows(new) else new)
        waiting += behind[position]
    body.extend(_frees(waiting, ordered))
    return dataclasses.replace(region, body=tuple(body))


def _seeing(line: Probe, liveness: Liveness, ended: set[Life]) -> Probe:
    """Return a probe without the buffers that have ended before it."""
    alive = tuple(name for name in line.buffers if ended.isdisjoint(liveness.of(name)))
    return line if alive == line.buffers else dataclasses.replace(line, buffers=alive)


def _frees(lives: list[Life], ordered: Mapping[Life, OrderedEnd]) -> list[Free]:
    """Return ``free`` lines: slices before their pools, otherwise in order of definition."""
    slices_first = sorted(lives, key=lambda life: (life.pool is None, life.start))
    return [
        Free(life.owner, ordered[life].after if life in ordered else ()) for life in slices_first
    ]


# Freed memory goes back to the stream that it was allocated on, which may reuse it at once. So
# storage ends where that stream has waited for the work of the others. If it never does, the
# allocator has to be told which streams to wait for.


class OrderedEnd(NamedTuple):
    """The line after which a storage can end, and the streams still working on it then."""

    position: int
    after: tuple[int, ...] = ()


def ordered_ends(region: Region, liveness: Liveness, program: Program) -> dict[Life, OrderedEnd]:
    """Return the ends of storages in a program with streams; empty for a program without.

    Args:
        region: A region.
        liveness: Its lives.
        program: The program that contains it.
    """
    if not program.streams:
        return {}
    clocks = Clocks(program)
    #: The last line, counted from 1, that touches a storage on each stream.
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
