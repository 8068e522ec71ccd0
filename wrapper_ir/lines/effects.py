"""What a line does to buffers and symbols: the only reader of roles.

The verifier, liveness, the planner, probes and the diff ask :func:`effects`; none of them looks at
line classes for dataflow. Roles are
read off the types of a class's fields once a class, so a new line costs nothing here.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import sympy

from wrapper_ir.lines.args import (
    Access,
    BufferArg,
    ObjectArg,
    Relation,
    ResultBuffer,
    ResultObject,
    ScalarArg,
)
from wrapper_ir.lines.base import Role
from wrapper_ir.lines.control import Region
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.program import AnyLine, Program


class Alias(NamedTuple):
    """``name`` is, or with ``may`` perhaps is, a view of the storage of ``source``."""

    name: str
    source: str
    may: bool


@dataclasses.dataclass(slots=True)
class Effects:
    """What one line does, each in the order of the line's fields.

    Regions inside the line are not looked into.
    """

    defines: list[str] = dataclasses.field(default_factory=list)
    uses: list[str] = dataclasses.field(default_factory=list)
    """Buffers that must be alive but whose contents are not touched, view sources included."""
    reads: list[str] = dataclasses.field(default_factory=list)
    writes: list[str] = dataclasses.field(default_factory=list)
    kills: list[str] = dataclasses.field(default_factory=list)
    takes: list[str] = dataclasses.field(default_factory=list)
    peeks: list[str] = dataclasses.field(default_factory=list)
    aliases: list[Alias] = dataclasses.field(default_factory=list)
    defines_symbols: list[str] = dataclasses.field(default_factory=list)
    uses_symbols: set[str] = dataclasses.field(default_factory=set)
    """Symbols that the line mentions, in its own fields and in the layouts of what it defines."""
    objects: list[str] = dataclasses.field(default_factory=list)
    """Objects that the line hands on: their state may be read and changed."""
    defines_objects: list[str] = dataclasses.field(default_factory=list)
    """Objects that the line makes, which may hold what it reads, writes and defines."""
    held: list[str] = dataclasses.field(default_factory=list)
    """Buffers whose storage such an object, or a tensor of the caller's, may hold from here on: its
    owner may let it go, but it is never given to anything else."""

    @property
    def written(self) -> list[str]:
        """Every buffer that holds something new after the line: written or defined.

        Without repeats, in order.
        """
        return list(dict.fromkeys((*self.writes, *self.defines)))

    @property
    def touched(self) -> list[str]:
        """Every buffer that must be alive when the line runs, peeks excepted.

        Without repeats, in order.
        """
        return list(
            dict.fromkeys((*self.uses, *self.reads, *self.writes, *self.kills, *self.takes))
        )


#: Ops that make their first argument a view of another one's storage, and the position of that.
_HANDING_OVER: Final = {
    "aten::set_.source_Tensor": 1,
    "aten::set_.source_Tensor_storage_offset": 1,
}


def handed_over(op: str) -> int | None:
    """Return the position of the argument whose storage an op gives to its first argument, if any.

    What the first argument held before goes; its tensor, which the caller may have, keeps the new
    storage for good. Schemas do not say so.
    """
    return _HANDING_OVER.get(op)


def effects(line: AnyLine, program: Program | None = None) -> Effects:
    """What ``line`` does in ``program``, which gives the layouts of what it defines.

    Without a program the symbols in those layouts are left out.
    """
    found = Effects()
    sources: list[str] = []
    for name, role in _plan(type(line)):
        value = getattr(line, name)
        if role is None:
            _INSIDE.get(type(value), _add_fields)(value, found, sources)
        else:
            _file(value, role, found, sources)
    for source in sources:
        found.aliases.extend(Alias(name, source, may=False) for name in found.defines)
    if found.objects or found.defines_objects:
        found.held[:0] = dict.fromkeys((*found.reads, *found.writes))
    if found.defines_objects:
        found.held.extend(name for name in found.defines if name not in found.held)
    if type(line) is ExternKernel and line.op in _HANDING_OVER:
        found.held.extend(found.reads)
    if program is None:
        return found
    for name in found.defines:
        layout = program.buffers.get(name)
        if layout is not None and layout.symbols:
            found.uses_symbols |= layout.symbols
    return found


def _file(value: Any, role: Role, found: Effects, sources: list[str]) -> None:
    """Files the name, or the names, that one field holds under the field's role."""
    if type(value) is tuple:
        for item in value:
            _FILE[role](found, item, sources)
    else:
        _FILE[role](found, value, sources)


def _add_view(found: Effects, name: str, sources: list[str]) -> None:
    found.uses.append(name)
    sources.append(name)


_FILE: Final[dict[Role, Callable[[Effects, str, list[str]], None]]] = {
    Role.DEFINE: lambda found, name, _: found.defines.append(name),
    Role.USE: lambda found, name, _: found.uses.append(name),
    Role.VIEW: _add_view,
    Role.READ: lambda found, name, _: found.reads.append(name),
    Role.WRITE: lambda found, name, _: found.writes.append(name),
    Role.KILL: lambda found, name, _: found.kills.append(name),
    Role.TAKE: lambda found, name, _: found.takes.append(name),
    Role.PEEK: lambda found, name, _: found.peeks.append(name),
    Role.DEFINE_SYMBOL: lambda found, name, _: found.defines_symbols.append(name),
}


def _add_buffer_arg(value: BufferArg, found: Effects, _: list[str]) -> None:
    access = value.access
    if access is not Access.WRITE:
        found.reads.append(value.buffer)
    if access is not Access.READ:
        found.writes.append(value.buffer)


def _add_object_arg(value: ObjectArg, found: Effects, _: list[str]) -> None:
    found.objects.append(value.object)


def _add_scalar_arg(value: ScalarArg, found: Effects, _: list[str]) -> None:
    if isinstance(value.value, sympy.Basic):
        found.uses_symbols |= free_symbols(value.value)


def _add_result(value: ResultBuffer, found: Effects, _: list[str]) -> None:
    found.defines.append(value.out)
    if value.relation is Relation.HELD:
        found.held.append(value.out)
    may = value.relation is Relation.MAY_ALIAS
    found.aliases.extend(Alias(value.out, source, may) for source in value.of)


def _add_result_object(value: ResultObject, found: Effects, _: list[str]) -> None:
    found.defines_objects.append(value.object)


def _add_items(value: tuple[Any, ...], found: Effects, sources: list[str]) -> None:
    for item in value:
        _INSIDE.get(type(item), _add_fields)(item, found, sources)


def _add_nothing(value: Any, found: Effects, sources: list[str]) -> None:
    """Leaves without names; regions are isolated."""


def _add_fields(value: Any, found: Effects, sources: list[str]) -> None:
    if isinstance(value, sympy.Basic):
        found.uses_symbols |= free_symbols(value)
    elif dataclasses.is_dataclass(value):
        for name, role in _plan(type(value)):
            item = getattr(value, name)
            if role is None:
                _INSIDE.get(type(item), _add_fields)(item, found, sources)
            else:
                _file(item, role, found, sources)


_INSIDE: Final[dict[type, Callable[[Any, Effects, list[str]], None]]] = {
    BufferArg: _add_buffer_arg,
    ObjectArg: _add_object_arg,
    ScalarArg: _add_scalar_arg,
    ResultBuffer: _add_result,
    ResultObject: _add_result_object,
    tuple: _add_items,
    Region: _add_nothing,
    **dict.fromkeys((str, int, float, complex, bool, type(None)), _add_nothing),
}

_PLAIN: Final = (str, int, bool, float, complex, type(None))


_Plan: TypeAlias = tuple[tuple[str, Role | None], ...]
_PLANS: Final[dict[type, _Plan]] = {}


def _plan(cls: type) -> _Plan:
    """The fields of a class that can name buffers or symbols, each with its role.

    ``None`` means look inside.
    """
    plan = _PLANS.get(cls)
    if plan is None:
        plan = _PLANS[cls] = tuple(_make_plan(cls))
    return plan


def _make_plan(cls: type) -> Iterator[tuple[str, Role | None]]:
    if cls is Region or not dataclasses.is_dataclass(cls):
        return
    hints = get_type_hints(cls, include_extras=True, localns={"AnyLine": object})
    for field in dataclasses.fields(cls):
        if field.name == "origin":
            continue
        role = _role(hints[field.name])
        if role is not None or _can_mention(hints[field.name]):
            yield field.name, role


def _can_mention(hint: Any) -> bool:
    """Whether a value of this type can name buffers or symbols; yes where that is not certain."""
    if hint in _PLAIN or hint is Region or hint is Ellipsis:
        return False
    inner = get_args(hint)
    if inner:
        return any(map(_can_mention, inner))
    if not isinstance(hint, type) or issubclass(hint, sympy.Basic):
        return True
    if dataclasses.is_dataclass(hint):
        return hint in _INSIDE or bool(_plan(hint))
    return not issubclass(hint, enum.Enum)


def _role(hint: Any) -> Role | None:
    """The role in ``Annotated[str, role]`` or in a tuple or optional of it."""
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Role):
            return extra
    if get_origin(hint) is tuple:
        return _role(get_args(hint)[0])
    return None
