"""Making a program that shows a fault as small as it can be and still show it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.memory import Free
from wrapper_ir.lines.program import FrozenMap, Program, Stage
from wrapper_ir.lines.walk import Path, map_regions, regions_of, walk
from wrapper_ir.verify import diagnose

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.program import AnyLine


def reduce(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a smaller program that breaks no rule of the IR and still fails.

    Lines (those of regions included), results and inputs are left out, many at a time and then one
    by one, as long as the verifier has no objection and ``fails`` says yes; so no single one of
    them can be left out of what comes back.

    Args:
        program: A program that fails.
        fails: Tells whether a program fails. It is asked for good programs only, whose inputs are
            some of the first one's.
    """

    def holds(candidate: Program) -> bool:
        return not diagnose(candidate) and fails(candidate)

    while True:
        before = program
        program = _fewer_lines(program, holds)
        program = _fewer(program, holds, "results")
        program = _fewer(program, holds, "inputs")
        if program == before:
            return program


def _fewer_lines(program: Program, holds: Callable[[Program], bool]) -> Program:
    """Leave out runs of lines, long ones first, from the end on."""
    length = max(len(program.body) // 2, 1)
    while length:
        at = len(_paths(program)) - length
        while at >= -length:
            paths = _paths(program)
            run = paths[max(at, 0) : at + length]
            candidate = _tidy(_closed(_without(program, run)))
            if run and holds(candidate):
                program = candidate
                at = min(at, len(_paths(program)))
            at -= length
        length //= 2
    return program


def _fewer(program: Program, holds: Callable[[Program], bool], field: str) -> Program:
    """Leave out results or inputs, one by one."""
    for position in reversed(range(len(getattr(program, field)))):
        kept = getattr(program, field)
        fewer = (*kept[:position], *kept[position + 1 :])
        candidate = _tidy(program.replace(**{field: fewer}))
        ended = _tidy(_ending(candidate, kept[position]))
        program = next((each for each in (candidate, ended) if holds(each)), program)
    return program


def _paths(program: Program) -> list[Path]:
    """Return the paths of lines that may go; what only they need goes with them."""
    return [p for p, line in walk(program) if not effects(line).declares]


def _without(program: Program, paths: Collection[Path]) -> Program:
    gone = set(paths)

    def kept(body: tuple[AnyLine, ...], parent: Path, name: str) -> Iterator[AnyLine]:
        for index, line in enumerate(body):
            path = parent.then(name, index)
            if path not in gone:
                yield _inside(line, path)

    def _inside(line: AnyLine, path: Path) -> AnyLine:
        names = iter(name for name, _ in regions_of(line))

        def change(region: Region) -> Region:
            body = tuple(kept(region.body, path, next(names)))
            return dataclasses.replace(region, body=body)

        return map_regions(line, change)

    return program.replace(body=tuple(kept(program.body, Path(), "body")))


def _closed(program: Program) -> Program:
    """Return the program without the lines and results that name what is defined no more.

    So an allocation goes together with its calls and its end, wherever these stand.
    """
    inputs = [effects(item) for item in program.inputs]
    defined = {*program.constants, *(name for each in inputs for name in each.defines)}
    objects = {*program.objects, *(name for each in inputs for name in each.defines_objects)}
    body: list[AnyLine] = []
    for line in program.body:
        found = effects(line, program)
        if defined.issuperset((*found.touched, *found.peeks)) and objects.issuperset(found.objects):
            defined.update(found.defines)
            objects.update(found.defines_objects)
            body.append(line)
    results = tuple(
        value
        for value in program.results
        if not isinstance(value, BufferValue) or value.buffer in defined
    )
    return program.replace(body=tuple(body), results=results)


def _ending(program: Program, gone: object) -> Program:
    """Return the program with an end for a former result, where all ends are written out."""
    if program.stage is not Stage.PLANNED or not isinstance(gone, BufferValue):
        return program
    return program.replace(body=(*program.body, Free(gone.buffer)))


def _tidy(program: Program) -> Program:
    """Return the program without kernels that nothing calls, and names that nothing defines."""
    called = {name for _, line in walk(program) for name in effects(line).calls}
    body = tuple(line for line in program.body if called.issuperset(effects(line).declares))
    program = program.replace(body=body)
    used: set[str] = {v.buffer for v in program.results if isinstance(v, BufferValue)}
    defined = {item.name for item in program.inputs if isinstance(item, BufferInput)}
    for _, line in walk(program):
        found = effects(line, program)
        used.update(found.touched)
        defined.update(found.defines)
        for _, region in regions_of(line):
            defined.update(p.name for p in region.params if isinstance(p, BufferInput))
            used.update(v.buffer for v in region.results if isinstance(v, BufferValue))
    for name, constant in program.constants.items():
        if name in used and constant.packing is not None:
            used.update(constant.packing.sources)
    constants = {
        name: constant
        for name, constant in program.constants.items()
        if name in used or any(c.tied_to == name for c in program.constants.values())
    }
    layouts = {
        name: layout
        for name, layout in program.buffers.items()
        if name in defined or name in constants
    }
    handed = {name for _, line in walk(program) for name in effects(line, program).objects}
    objects = {name: item for name, item in program.objects.items() if name in handed}
    kept = constants.keys() | objects.keys()
    return program.replace(
        constants=FrozenMap(constants),
        objects=FrozenMap(objects),
        buffers=FrozenMap(layouts),
        data={name: value for name, value in program.data.items() if name in kept},
    )
