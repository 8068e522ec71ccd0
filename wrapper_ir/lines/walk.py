"""Walking and rewriting the lines of a program, regions included.

A line's address is its *path*: ``body[3].then[2]`` is the third line of the ``then`` region of the
fourth line of the program.
Diagnostics, source maps and diffs use it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from wrapper_ir.lines.control import Region
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.program import AnyLine, Program
from wrapper_ir.lines.roles import REGION_FIELDS
from wrapper_ir.lines.roles import regions_of as regions_of  # a part of walking


class Step(NamedTuple):
    """One step of a path: the region's name and the line's index in it."""

    region: str
    position: int


class Path(tuple[Step, ...]):
    """The address of a line, outermost step first; empty for the program itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return ".".join(f"{region}[{index}]" for region, index in self)

    def __repr__(self) -> str:
        return f"Path({str(self)!r})"

    def then(self, region: str, index: int) -> Path:
        """The path of a line in a region of this line."""
        return Path((*self, Step(region, index)))

    @classmethod
    def parse(cls, text: str) -> Path:
        """The path that ``str`` gives ``text`` for.

        Raises:
            ValueError: the text is not a path.
        """
        if not text:
            return cls()
        steps = []
        for part in text.split("."):
            match = re.fullmatch(r"([a-z]+\d*)\[(\d+)\]", part)
            if match is None:
                raise ValueError(f"'{text}' is not a path such as body[3].then[2]")
            steps.append(Step(match[1], int(match[2])))
        return cls(steps)


def made_objects(program: Program) -> tuple[str, ...]:
    """The objects that ops of a program return, in order; regions have none."""
    return tuple(name for line in program.body for name in effects(line).defines_objects)


def walk(program: Program) -> Iterator[tuple[Path, AnyLine]]:
    """Every line with its path, a line before the lines of its regions."""
    return _walk(program.body, Path(), "body")


def _walk(body: Iterable[AnyLine], parent: Path, region: str) -> Iterator[tuple[Path, AnyLine]]:
    for index, line in enumerate(body):
        path = parent.then(region, index)
        yield path, line
        for name, inner in regions_of(line):
            yield from _walk(inner.body, path, name)


def walk_regions(program: Program) -> Iterator[tuple[Path, str, Region]]:
    """Every region: the path of the line that holds it, its name and itself; outer before inner.

    The path of the program's own region is empty.
    """
    yield Path(), "body", program.region
    for path, line in walk(program):
        for name, region in regions_of(line):
            yield path, name, region


def line_at(program: Program, path: Path) -> AnyLine:
    """The line at a path.

    Raises:
        LookupError: there is none.
    """
    body, found = program.body, None
    regions: dict[str, Region] = {"body": program.region}
    for step in path:
        if step.region not in regions or step.position >= len(regions[step.region].body):
            raise LookupError(f"the program has no line at {path}")
        body = regions[step.region].body
        found = body[step.position]
        regions = dict(regions_of(found))
    if found is None:
        raise LookupError("an empty path names the program, not a line")
    return found


Rewrite = Callable[[AnyLine], Iterable[AnyLine]]


def rewrite_lines(body: Iterable[AnyLine], rewrite: Rewrite) -> tuple[AnyLine, ...]:
    """The lines with each replaced by what ``rewrite`` gives for it, inner regions first."""
    result: list[AnyLine] = []
    for line in body:
        result.extend(
            rewrite(
                map_regions(
                    line, lambda r: dataclasses.replace(r, body=rewrite_lines(r.body, rewrite))
                )
            )
        )
    return tuple(result)


def map_regions(line: AnyLine, change: Callable[[Region], Region]) -> AnyLine:
    """The line with its regions changed; lines without regions come back as they are."""
    changes: dict[str, Any] = {}
    for name, _, many in REGION_FIELDS[type(line)]:
        value = getattr(line, name)
        changes[name] = tuple(map(change, value)) if many else change(value)
    return dataclasses.replace(line, **changes) if changes else line
