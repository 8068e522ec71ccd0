"""Deriving ``free`` lines where a front end gave none."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING

from wrapper_ir.analysis.liveness import BEFORE, Liveness
from wrapper_ir.lines import Free, GraphRole, Probe, Region, When, map_regions
from wrapper_ir.lines.traits import shows
from wrapper_ir.planning.ordered import ordered_ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines import AnyLine, Program
    from wrapper_ir.planning.ordered import OrderedEnd


def insert_frees(program: Program, *, free_inputs: bool | None = None) -> Program:
    """The program with a ``free`` behind the last use of all storage that no line ends.

    What is ended already stays as it is, results stay alive, and lines keep their order. Probes
    extend no lifetime: a free goes behind those that look at the outcome of the last call, and a
    probe further down loses what it can no longer look at. What several streams work on ends where
    these have waited for one another, or with the word that they have not.

    Args:
        program: A program that verifies; its stage is left alone.
        free_inputs: Whether inputs are dropped after their last use too, so that the caller's
            memory can go before the program ends. By default only those of training graphs are,
            whose inputs are saved activations.
    """
    if free_inputs is None:
        free_inputs = program.role is not GraphRole.INFERENCE
    region = _with_frees(program.region, program, free_params=free_inputs)
    return program if region is program.region else program.replace(body=region.body)


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
        if waiting and not _looks_back(line):
            body.extend(_frees(waiting, ordered))
            ended.update(waiting)
            waiting = []
        new = map_regions(line, lambda inner: _with_frees(inner, program, free_params=False))
        body.append(_seeing(new, liveness, ended) if shows(new) else new)
        waiting += behind[position]
    body.extend(_frees(waiting, ordered))
    return dataclasses.replace(region, body=tuple(body))


def _seeing(line: Probe, liveness: Liveness, ended: set[Life]) -> Probe:
    """A probe without what has ended before it."""
    alive = tuple(name for name in line.buffers if ended.isdisjoint(liveness.of(name)))
    return line if alive == line.buffers else dataclasses.replace(line, buffers=alive)


def _looks_back(line: AnyLine) -> bool:
    return shows(line) and line.when is When.AFTER


def _frees(lives: list[Life], ordered: Mapping[Life, OrderedEnd]) -> list[Free]:
    """Slices before pools, otherwise in the order in which the storage began."""
    slices_first = sorted(lives, key=lambda life: (life.pool is None, life.start))
    return [
        Free(life.owner, ordered[life].after if life in ordered else ()) for life in slices_first
    ]
