"""Walking and rewriting the lines of a program, regions included.

A line's address is its *path*: ``body[3].then[2]`` is the third line of the ``then`` region of the
fourth line of the program. Diagnostics, source maps and diffs use paths.
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
from wrapper_ir.lines.expr import real_symbol, symbol
from wrapper_ir.lines.layout import Device
from wrapper_ir.lines.program import AnyLine, FrozenMap, Program
from wrapper_ir.lines.traits import NAMED_FIELDS, REGION_FIELDS, NameField
from wrapper_ir.lines.traits import regions_of as regions_of  # re-exported for walkers

__all__ = ["FOLDING", "Path", "Step", "line_at", "map_devices", "map_regions", "rewrite_lines"]
__all__ += ["walk", "walk_regions"]


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
        """Return the path of a line in one of this line's regions."""
        return Path((*self, Step(region, index)))

    @classmethod
    def parse(cls, text: str) -> Path:
        """Parse a path as printed by ``str``.

        Raises:
            ValueError: The text is not a path.
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


FOLDING: Final = Path((Step("folding", 0),))
"""What precedes the paths of lines of the program that computes folded constants."""


def walk(whole: Program | Region) -> Iterator[tuple[Path, AnyLine]]:
    """Return an iterator over all lines with their paths, in pre-order."""
    return _walk(whole.body, Path(), "body")


def _walk(body: Iterable[AnyLine], parent: Path, region: str) -> Iterator[tuple[Path, AnyLine]]:
    for index, line in enumerate(body):
        path = parent.then(region, index)
        yield path, line
        for name, inner in regions_of(line):
            yield from _walk(inner.body, path, name)


def walk_regions(program: Program) -> Iterator[tuple[Path, str, Region]]:
    """Yield every region, outer before inner, with its holder's path and its name.

    The path of the program's own region is empty.
    """
    yield Path(), "body", program.region
    for path, line in walk(program):
        for name, region in regions_of(line):
            yield path, name, region


def line_at(program: Program, path: Path) -> AnyLine:
    """Return the line at a path.

    Raises:
        LookupError: The program has no such line.
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
PathRewrite = Callable[[Path, AnyLine], Iterable[AnyLine]]


def rewrite_lines(body: Iterable[AnyLine], rewrite: Rewrite) -> tuple[AnyLine, ...]:
    """Replace each line by the result of ``rewrite``, inner regions first."""
    return _rewritten(body, Path(), "body", lambda _, line: rewrite(line))


def rewrite_paths(program: Program, rewrite: PathRewrite) -> Program:
    """Replace each line of a program by the result of ``rewrite`` for its path and itself."""
    return program.replace(body=_rewritten(program.body, Path(), "body", rewrite))


def _rewritten(
    body: Iterable[AnyLine], parent: Path, name: str, rewrite: PathRewrite
) -> tuple[AnyLine, ...]:
    result: list[AnyLine] = []
    for index, line in enumerate(body):
        path = parent.then(name, index)
        names = iter([inner for inner, _ in regions_of(line)])  # in the order of map_regions

        def inside(region: Region, path: Path = path, names: Iterator[str] = names) -> Region:
            lines = _rewritten(region.body, path, next(names), rewrite)
            return dataclasses.replace(region, body=lines)

        result.extend(rewrite(path, map_regions(line, inside)))
    return tuple(result)


def map_regions(line: AnyLine, change: Callable[[Region], Region]) -> AnyLine:
    """Apply ``change`` to the regions of a line. Lines without regions are returned unchanged."""
    changes: dict[str, Any] = {}
    for name, _, many in REGION_FIELDS[type(line)]:
        value = getattr(line, name)
        changes[name] = tuple(map(change, value)) if many else change(value)
    return dataclasses.replace(line, **changes) if changes else line


# Renaming buffers, kernels and symbols.
#
# The roles of fields tell which of them hold names, so a new line needs no code here. Text for
# people (comments, messages, labels) is left alone.

T = TypeVar("T")

#: The namespace of the names of a role, if not that of buffers and objects. Library ops are not
#: renamed.
_TABLES: Final = {
    Role.DEFINE_SYMBOL: "symbols",
    Role.CALL: "kernels",
    Role.DECLARE: "kernels",
    Role.CALL_OP: "",
    Role.DECLARE_OP: "",
}


class Renaming:
    """Renames values. Parts without a renamed name are returned unchanged, not copied.

    Args:
        buffers: Maps the names of buffers and objects, which share a namespace.
        kernels: Maps the names of kernels. Library ops are not renamed.
        symbols: Maps the names of symbols.
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
        """Rename a program. Its tables keep their order."""
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
        """Rename a line or any part of one."""
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
        """Rename the value of a field: a name or a tuple of names."""
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
            kinds = {s: symbol if s.is_integer else real_symbol for s in expr.free_symbols}
            pairs = {s: kind(rename(s.name)) for s, kind in kinds.items()}
            found = self._exprs[expr] = expr.xreplace(pairs)
        return found


# Devices are in many parts of a program: layouts, calls, streams, arguments of ops.

_WITHOUT_DEVICES: Final = frozenset(("origins", "data", "symbols"))


def map_devices(program: Program, change: Callable[[Device], Device]) -> Program:
    """Return a program with each of its devices replaced; the same object if none changes.

    The program that computes folded constants is a part of it.
    """
    known: dict[int, tuple[Any, Any]] = {}  # layouts are shared; what is known is kept alive

    def value(old: Any) -> Any:
        if isinstance(old, Device):
            new = change(old)
            return old if new == old else new
        if type(old) is tuple:
            items = tuple(map(value, old))
            return old if all(map(operator.is_, items, old)) else items
        if isinstance(old, FrozenMap):
            table = {name: value(item) for name, item in old.items()}
            is_same = all(table[name] is item for name, item in old.items())
            return old if is_same else FrozenMap(table)
        if not dataclasses.is_dataclass(old) or isinstance(old, type):
            return old
        if id(old) not in known:
            known[id(old)] = old, parts(old)
        return known[id(old)][1]

    def parts(old: Any) -> Any:
        names = [each.name for each in dataclasses.fields(old) if each.init]
        new = {n: value(getattr(old, n)) for n in names if n not in _WITHOUT_DEVICES}
        changes = {name: item for name, item in new.items() if item is not getattr(old, name)}
        return dataclasses.replace(old, **changes) if changes else old

    return cast("Program", value(program))
