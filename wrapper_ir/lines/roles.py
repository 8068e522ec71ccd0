"""The names in the fields of lines and of their parts, read off the types of the fields.

Effects, renaming and the text form ask here, once a class: none of them has a table of its own.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import sympy

from wrapper_ir.lines.base import Block, Role, RoleIf
from wrapper_ir.lines.control import AnyLine, Region

T = TypeVar("T")


class PerClass(dict[type, T], Generic[T]):
    """A table by class, whose entries are made when they are first asked for.

    Args:
        make: Makes the entry of a class.
    """

    def __init__(self, make: Callable[[type], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, cls: type) -> T:
        found = self[cls] = self._make(cls)
        return found


Roles: TypeAlias = tuple[Role | RoleIf, ...]


class NameField(NamedTuple):
    """A field that names can be in: as its value, or, where ``roles`` is empty, inside of it."""

    name: str
    roles: Roles
    many: bool
    """Whether the value is a tuple of names."""

    def among(self, part: object) -> tuple[Role, ...]:
        """Return the roles that the names have in one part of a line."""
        return tuple(
            role if isinstance(role, Role) else role.role
            for role in self.roles
            if isinstance(role, Role) or decisive(getattr(part, role.field)) in role.among
        )


def decisive(value: object) -> object:
    """Return what :class:`RoleIf` compares: an enumeration's value, else a value's class."""
    return value if isinstance(value, enum.Enum) else type(value)


def own_roles(line: object) -> tuple[Role, ...]:
    """Return the roles of names in a line's own fields, those of its arguments left out."""
    return _OWN_ROLES[type(line)]


def _own_roles(cls: type) -> tuple[Role, ...]:
    given = (role for field in NAMED_FIELDS[cls] for role in field.roles)
    return tuple(role if isinstance(role, Role) else role.role for role in given)


def hints_of(cls: type) -> dict[str, Any]:
    """Return the types of a class's fields, roles included."""
    return get_type_hints(cls, include_extras=True, localns={"AnyLine": object})


class RegionField(NamedTuple):
    """A field that holds a region, or with ``many`` a tuple of them, which are numbered."""

    name: str
    block: str
    """What paths and the text form call the region."""
    many: bool


def _read_regions(cls: type) -> Iterator[RegionField]:
    for name, hint in hints_of(cls).items():
        given = [each.name for each in getattr(hint, "__metadata__", ()) if isinstance(each, Block)]
        plain = get_args(hint)[0] if given else hint
        if Region in (plain, *get_args(plain)):
            yield RegionField(name, given[0] if given else name, plain is not Region)


_PLAIN: Final = (str, int, bool, float, complex, type(None), Ellipsis)


def _read(cls: type) -> Iterator[NameField]:
    hints = hints_of(cls)
    for field in dataclasses.fields(cls):
        if not field.init or field.name == "origin":
            continue
        hint = hints[field.name]
        roles = _roles(hint)
        if roles or _can_name(hint, (cls,)):
            yield NameField(field.name, roles, get_origin(hint) is tuple)


def _roles(hint: Any) -> Roles:
    """The roles in ``Annotated[str, roles]`` or in a tuple or optional of it."""
    if get_origin(hint) is Annotated:
        return tuple(extra for extra in hint.__metadata__ if isinstance(extra, (Role, RoleIf)))
    return next(filter(None, map(_roles, get_args(hint))), ())


def _can_name(hint: Any, seen: tuple[Any, ...]) -> bool:
    """Return whether a value of this type can name something; yes where that is not certain."""
    if hint in _PLAIN or hint in seen:
        return False
    if get_origin(hint) is Annotated:
        return bool(_roles(hint)) or _can_name(get_args(hint)[0], seen)
    inner = get_args(hint)
    if inner:
        return any(_can_name(each, seen) for each in inner)
    if not isinstance(hint, type) or issubclass(hint, sympy.Basic):
        return True
    if dataclasses.is_dataclass(hint):
        fields = [field.name for field in dataclasses.fields(hint) if field.init]
        hints = hints_of(hint)
        return any(_can_name(hints[name], (*seen, hint)) for name in fields)
    return not issubclass(hint, enum.Enum)


NAMED_FIELDS: Final = PerClass(lambda cls: tuple(_read(cls)))
"""By class, the fields that can name something."""

REGION_FIELDS: Final = PerClass(lambda cls: tuple(_read_regions(cls)))
"""By class, the fields that hold regions, in order."""

_OWN_ROLES: Final = PerClass(_own_roles)


def regions_of(line: AnyLine) -> tuple[tuple[str, Region], ...]:
    """The regions that a line holds, with the names that paths call them."""
    fields = REGION_FIELDS[type(line)]
    return tuple(_regions_in(line, fields)) if fields else ()


def _regions_in(line: AnyLine, fields: tuple[RegionField, ...]) -> Iterator[tuple[str, Region]]:
    for name, block, many in fields:
        value = getattr(line, name)
        if many:
            yield from ((f"{block}{number}", region) for number, region in enumerate(value))
        else:
            yield block, value


def lines_in(body: Iterable[AnyLine]) -> Iterator[AnyLine]:
    """Yield every line of a body, a line before the lines of its regions."""
    for line in body:
        yield line
        for _, region in regions_of(line):
            yield from lines_in(region.body)
