"""Effects of a line on buffers and symbols, derived from the roles of its fields.

The verifier, liveness analysis, the planner, probes and the diff get dataflow from :func:`effects`
and never from line classes. A collector is built from the roles of a class on first use, so a new
line needs no code here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import sympy

from wrapper_ir.lines.base import Role
from wrapper_ir.lines.control import AnyLine, Input, Region
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.traits import NAMED_FIELDS, NameField, PerClass, decisive

__all__ = ["Alias", "Effects", "effects"]


class Alias(NamedTuple):
    """``name`` is a view of the storage of ``source``, or with ``may`` possibly one."""

    name: str
    source: str
    may: bool


@dataclasses.dataclass(slots=True)
class Effects:
    """Effects of one line, each in the order of the line's fields.

    Regions inside the line are not included.
    """

    defines: list[str] = dataclasses.field(default_factory=list)
    uses: list[str] = dataclasses.field(default_factory=list)
    """Buffers that must be alive but whose contents are untouched, sources of views included."""
    reads: list[str] = dataclasses.field(default_factory=list)
    writes: list[str] = dataclasses.field(default_factory=list)
    kills: list[str] = dataclasses.field(default_factory=list)
    takes: list[str] = dataclasses.field(default_factory=list)
    peeks: list[str] = dataclasses.field(default_factory=list)
    aliases: list[Alias] = dataclasses.field(default_factory=list)
    defines_symbols: list[str] = dataclasses.field(default_factory=list)
    uses_symbols: set[str] = dataclasses.field(default_factory=set)
    """Symbols in the line's own fields and in the layouts of what it defines."""
    objects: list[str] = dataclasses.field(default_factory=list)
    """Objects that the line passes on. Their state may be read and changed."""
    defines_objects: list[str] = dataclasses.field(default_factory=list)
    """Objects that the line creates. They may hold what it reads, writes and defines."""
    calls: list[str] = dataclasses.field(default_factory=list)
    """Kernels and library ops that the line calls."""
    declares: list[str] = dataclasses.field(default_factory=list)
    """Kernels and library ops that lines may call from here on."""
    held: list[str] = dataclasses.field(default_factory=list)
    """Buffers whose storage an object or one of the caller's tensors may hold from here on.

    The owner may free it, but nothing may reuse it.
    """

    @property
    def written(self) -> list[str]:
        """Buffers with new contents after the line: written or defined, without repeats."""
        return list(dict.fromkeys((*self.writes, *self.defines)))

    @property
    def touched(self) -> list[str]:
        """Buffers that must be alive when the line runs, except peeks, without repeats."""
        ended = (*self.kills, *self.takes)
        return list(dict.fromkeys((*self.uses, *self.reads, *self.writes, *ended)))


#: Ops that make their first argument a view of another argument's storage, by its position.
_HANDING_OVER: Final = {
    "aten::set_.source_Tensor": 1,
    "aten::set_.source_Tensor_storage_offset": 1,
}


def handed_over(op: str) -> int | None:
    """Return the position of the argument whose storage an op moves into its first one, if any.

    The first argument drops its old storage. Its tensor may belong to the caller and then holds the
    new storage indefinitely. Schemas do not state this.
    """
    return _HANDING_OVER.get(op)


class KnowsLayouts(Protocol):
    """Anything with a table of layouts, such as a program."""

    @property
    def buffers(self) -> Mapping[str, Layout]:
        """Return the layout of every buffer name."""


def effects(line: AnyLine | Input, program: KnowsLayouts | None = None) -> Effects:
    """Return the effects of ``line``.

    ``program`` provides the layouts of what the line defines. Without it, the symbols in those
    layouts are not included.
    """
    found = Effects()
    _collect(line, found)
    if found.objects or found.defines_objects:
        found.held[:0] = dict.fromkeys((*found.reads, *found.writes))
    if found.defines_objects:
        found.held.extend(name for name in found.defines if name not in found.held)
    if found.calls and found.calls[0] in _HANDING_OVER:
        found.held.extend(found.reads)
    if program is None:
        return found
    for name in found.defines:
        layout = program.buffers.get(name)
        if layout is not None and layout.symbols:
            found.uses_symbols |= layout.symbols
    return found


# Collectors, one for each class: they add the names in a value to lists by role.

_Collector: TypeAlias = Callable[[Any, Effects], None]


def _collect(value: Any, found: Effects) -> None:
    """Collect the names in a line or in a part of one."""
    _COLLECTORS[type(value)](value, found)


def _collect_nothing(value: Any, found: Effects) -> None:
    """Collect nothing: the value names nothing, or is a region, which is isolated."""


def _collect_items(values: tuple[Any, ...], found: Effects) -> None:
    for value in values:
        _collect(value, found)


def _collect_symbols(value: sympy.Basic, found: Effects) -> None:
    found.uses_symbols |= free_symbols(value)


_LISTS: Final = {
    Role.DEFINE: "defines",
    Role.USE: "uses",
    Role.VIEW: "uses",
    Role.READ: "reads",
    Role.WRITE: "writes",
    Role.KILL: "kills",
    Role.TAKE: "takes",
    Role.PEEK: "peeks",
    Role.DEFINE_SYMBOL: "defines_symbols",
    Role.HOLD: "held",
    Role.OBJECT: "objects",
    Role.DEFINE_OBJECT: "defines_objects",
    Role.CALL: "calls",
    Role.CALL_OP: "calls",
    Role.DECLARE: "declares",
    Role.DECLARE_OP: "declares",
}

#: Roles of the sources of views, and whether the relation is only possible.
_MAY: Final = {Role.VIEW: False, Role.ALIAS: False, Role.MAY_ALIAS: True}


def _collector(cls: type) -> _Collector:
    """Return the collector of a class."""
    if issubclass(cls, sympy.Basic):
        return _collect_symbols
    if not dataclasses.is_dataclass(cls):
        return _collect_nothing
    fields = NAMED_FIELDS[cls]
    made = tuple(field.name for field in fields if Role.DEFINE in field.roles)
    steps = [_step(field) if field.roles else _inside(field.name) for field in fields]
    # Aliases come after the names that the part defines.
    steps += [_aliasing(field, made) for field in fields if made and _is_aliased(field)]
    if len(steps) == 1:
        return steps[0]

    def collect(value: Any, found: Effects) -> None:
        for step in steps:
            step(value, found)

    return collect if steps else _collect_nothing


def _inside(name: str) -> _Collector:
    return lambda value, found: _collect(getattr(value, name), found)


def _step(field: NameField) -> _Collector:
    """Return the collector of one field."""
    name = field.name
    fixed = tuple(_LISTS[r] for r in field.roles if isinstance(r, Role) and r in _LISTS)
    tables = _tables(field)

    put: Callable[[list[Any], Any], None] = list.extend if field.many else list.append

    def collect(value: Any, found: Effects) -> None:
        for each in fixed:
            put(getattr(found, each), getattr(value, name))
        for beside, table in tables:
            for each in table.get(decisive(getattr(value, beside)), ()):
                put(getattr(found, each), getattr(value, name))

    return collect


def _tables(field: NameField) -> list[tuple[str, dict[object, tuple[str, ...]]]]:
    """Return the fields that decide roles, each with the lists to fill by the field's value."""
    tables: dict[str, dict[object, tuple[str, ...]]] = {}
    for role in field.roles:
        if not isinstance(role, Role) and role.role in _LISTS:
            table = tables.setdefault(role.field, {})
            for value in role.among:
                table[value] = (*table.get(value, ()), _LISTS[role.role])
    return list(tables.items())


def _is_aliased(field: NameField) -> bool:
    return any(given.role in _MAY for given in field.roles)


def _aliasing(field: NameField, made: tuple[str, ...]) -> _Collector:
    """Return a collector that makes the defined names aliases of those in one field."""

    def collect(value: Any, found: Effects) -> None:
        sources = getattr(value, field.name)
        if not sources:
            return
        may = any(_MAY.get(role, False) for role in field.among(value))
        for source in sources if field.many else (sources,):
            found.aliases.extend(Alias(getattr(value, each), source, may) for each in made)

    return collect


_COLLECTORS: Final = PerClass(_collector)
_COLLECTORS.update({tuple: _collect_items, Region: _collect_nothing})
