"""Walking and rewriting the lines of a program, regions included.

A line's address is its *path*: ``body[3].then[2]`` is the third line of the ``then`` region of the
fourth line of the program.
Diagnostics, source maps and diffs use it.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar, cast

import sympy

from wrapper_ir.lines.base import Role
from wrapper_ir.lines.control import Region
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import real_symbol, symbol
from wrapper_ir.lines.program import AnyLine, FrozenMap, Program
from wrapper_ir.lines.traits import NAMED_FIELDS, REGION_FIELDS, NameField
from wrapper_ir.lines.traits import regions_of as regions_of  # a part of walking


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


def walk(whole: Program | Region) -> Iterator[tuple[Path, AnyLine]]:
    """Every line of a program or region with its path, a line before the lines of its regions."""
    return _walk(whole.body, Path(), "body")


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
    return _rewritten(body, Path(), "body", lambda _, line: rewrite(line))


def rewrite_paths(
    program: Program, rewrite: Callable[[Path, AnyLine], Iterable[AnyLine]]
) -> Program:
    """The program with each line replaced by what ``rewrite`` gives for its path and it."""
    return program.replace(body=_rewritten(program.body, Path(), "body", rewrite))


def _rewritten(
    body: Iterable[AnyLine],
    parent: Path,
    name: str,
    rewrite: Callable[[Path, AnyLine], Iterable[AnyLine]],
) -> tuple[AnyLine, ...]:
    result: list[AnyLine] = []
    for index, line in enumerate(body):
        path = parent.then(name, index)
        names = iter([inner for inner, _ in regions_of(line)])  # the order in which they are mapped

        def inside(region: Region, path: Path = path, names: Iterator[str] = names) -> Region:
            lines = _rewritten(region.body, path, next(names), rewrite)
            return dataclasses.replace(region, body=lines)

        result.extend(rewrite(path, map_regions(line, inside)))
    return tuple(result)


def map_regions(line: AnyLine, change: Callable[[Region], Region]) -> AnyLine:
    """The line with its regions changed; lines without regions come back as they are."""
    changes: dict[str, Any] = {}
    for name, _, many in REGION_FIELDS[type(line)]:
        value = getattr(line, name)
        changes[name] = tuple(map(change, value)) if many else change(value)
    return dataclasses.replace(line, **changes) if changes else line


# Programs under other names: of buffers, kernels and symbols.
#
# Which fields hold names is read off their types, as roles are, so a new line needs no edit here.
# What is text for people (comments, messages, labels) keeps its words.

T = TypeVar("T")

#: What names of a role are names of, where not of buffers or objects, which share theirs. Library
#: ops have none but their own.
_TABLES: Final = {
    Role.DEFINE_SYMBOL: "symbols",
    Role.CALL: "kernels",
    Role.DECLARE: "kernels",
    Role.CALL_OP: "",
    Role.DECLARE_OP: "",
}


class Renaming:
    """Gives values with other names; equal parts come back as they are.

    Args:
        buffers: The new name of a buffer, or of an object: they share no names.
        kernels: The new name of a kernel; library ops have none but their own.
        symbols: The new name of a symbol.
    """

    def __init__(
        self,
        buffers: Callable[[str], str],
        kernels: Callable[[str], str],
        symbols: Callable[[str], str],
    ) -> None:
        self._tables = {"buffers": buffers, "kernels": kernels, "symbols": symbols}
        self._exprs: dict[sympy.Basic, sympy.Basic] = {}

    def program(self, program: Program) -> Program:
        """The program, its tables in the order that they have."""
        buffers, symbols = self._tables["buffers"], self._tables["symbols"]
        region: Region = self.value(program.region)
        return program.replace(
            inputs=region.params,
            body=region.body,
            results=region.results,
            buffers=FrozenMap({buffers(n): self.value(v) for n, v in program.buffers.items()}),
            symbols=FrozenMap({symbols(n): info for n, info in program.symbols.items()}),
            constants=FrozenMap({buffers(n): self.value(v) for n, v in program.constants.items()}),
            objects=FrozenMap({buffers(n): value for n, value in program.objects.items()}),
            data={buffers(n): value for n, value in program.data.items()},
        )

    def value(self, value: T) -> T:
        """A line, or any part of one."""
        return cast("T", self._value(value))

    def _value(self, value: Any) -> Any:
        if isinstance(value, sympy.Basic):
            return self._expr(value)
        if type(value) is tuple:
            items = tuple(map(self._value, value))
            return value if all(map(operator.is_, items, value)) else items
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changes = {}
        for field in NAMED_FIELDS[type(value)]:
            old = getattr(value, field.name)
            new = self._named(old, field, value) if field.roles else self._value(old)
            if new is not old:
                changes[field.name] = new
        return dataclasses.replace(value, **changes) if changes else value

    def _named(self, value: Any, field: NameField, part: Any) -> Any:
        """Return the value of a field, a name or several, under other names."""
        table = next((_TABLES.get(role, "buffers") for role in field.among(part)), "")
        if not value or not table:
            return value
        rename = self._tables[table]
        if field.many:
            return tuple(map(rename, value))
        new = rename(value)
        return value if new == value else new

    def _expr(self, expr: sympy.Basic) -> sympy.Basic:
        found = self._exprs.get(expr)
        if found is None:
            rename = self._tables["symbols"]
            pairs = {
                s: (symbol if s.is_integer else real_symbol)(rename(s.name))
                for s in expr.free_symbols
            }
            found = self._exprs[expr] = expr.xreplace(pairs)
        return found
