"""Queries on classes of lines: which fields hold names or regions, and which traits are set."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeGuard, TypeVar

import sympy

from wrapper_ir.lines import control, kernels, memory, symbols, trace
from wrapper_ir.lines.base import Block, Role, RoleIf, Runs, Trait
from wrapper_ir.lines.control import AnyLine, Region
from wrapper_ir.lines.expr import Scalar

T = TypeVar("T")


class PerClass(dict[Any, T], Generic[T]):
    """A table keyed by class or type hint whose entries are made on first use."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, cls: Any) -> T:
        found = self[cls] = self._make(cls)
        return found


Roles: TypeAlias = tuple[Role | RoleIf, ...]


class NameField(NamedTuple):
    """A field that can hold names: as its value or, if ``roles`` is empty, nested inside it."""

    name: str
    roles: Roles
    many: bool
    """True if the value is a tuple of names."""

    def among(self, part: object) -> tuple[Role, ...]:
        """Return the roles of the names in one part of a line."""
        return tuple(
            given.role
            for given in self.roles
            if isinstance(given, Role) or decisive(getattr(part, given.field)) in given.among
        )


def decisive(value: object) -> object:
    """Return what :class:`RoleIf` compares: a member of an enumeration, else the class."""
    return value if isinstance(value, enum.Enum) else type(value)


def own_roles(line: object) -> tuple[Role, ...]:
    """Return the roles in a line's own fields, without those of its arguments."""
    return _OWN_ROLES[type(line)]


def _own_roles(cls: type) -> tuple[Role, ...]:
    return tuple(given.role for field in NAMED_FIELDS[cls] for given in field.roles)


def hints_of(cls: type) -> dict[str, Any]:
    """Return the types of a class's fields, with their roles."""
    return typing.get_type_hints(cls, include_extras=True, localns={"AnyLine": object})


class RegionField(NamedTuple):
    """A field that holds a region or, with ``many``, a numbered tuple of regions."""

    name: str
    block: str
    """The name of the region in paths and in the text form."""
    many: bool


def _read_regions(cls: type) -> Iterator[RegionField]:
    for name, hint in hints_of(cls).items():
        given = [each.name for each in getattr(hint, "__metadata__", ()) if isinstance(each, Block)]
        plain = typing.get_args(hint)[0] if given else hint
        if Region in (plain, *typing.get_args(plain)):
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
            yield NameField(field.name, roles, typing.get_origin(hint) is tuple)


def _roles(hint: Any) -> Roles:
    """Return the roles in ``Annotated[str, roles]``, also inside a tuple or optional."""
    if typing.get_origin(hint) is Annotated:
        return tuple(extra for extra in hint.__metadata__ if isinstance(extra, (Role, RoleIf)))
    return next(filter(None, map(_roles, typing.get_args(hint))), ())


def _can_name(hint: Any, seen: tuple[Any, ...]) -> bool:
    """Return whether a value of this type can hold names. When in doubt, true."""
    if hint in _PLAIN or hint in seen:
        return False
    if typing.get_origin(hint) is Annotated:
        return bool(_roles(hint)) or _can_name(typing.get_args(hint)[0], seen)
    inner = typing.get_args(hint)
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
"""The fields that can hold names, by class."""

REGION_FIELDS: Final = PerClass(lambda cls: tuple(_read_regions(cls)))
"""The fields that hold regions in order, by class."""

_OWN_ROLES: Final = PerClass(_own_roles)


def regions_of(line: AnyLine) -> tuple[tuple[str, Region], ...]:
    """Return the regions of a line with their names in paths."""
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
    """Yield every line of a body in pre-order, regions included."""
    for line in body:
        yield line
        for _, region in regions_of(line):
            yield from lines_in(region.body)


# Predicates on traits, for code that must not test for classes.
#
# They also hold for any new line that declares the trait and has the fields its users read.

Test: TypeAlias = Callable[[AnyLine], TypeGuard[T]]


def _has(trait: Trait) -> Any:
    return lambda line: trait in line.traits


def _runs(where: Runs) -> Any:
    return lambda line: line.runs is where


#: It only declares what lines may call.
declares: Final[Test[kernels.KernelDefinition]] = _has(Trait.DECLARES)
#: It calls a library op.
calls_op: Final[Test[kernels.ExternKernel]] = _has(Trait.CALLS_OP)
#: It launches work or allocates memory on the stream that it names.
works: Final[Test[memory.Allocate | kernels.KernelCall | kernels.ExternKernel]] = _runs(Runs.STREAM)
#: It records an event on the stream that it names, or waits for one.
has_event: Final[Test[kernels.RecordEvent | kernels.WaitEvent]] = _runs(Runs.EVENT)
#: It defines buffers from the memory pool that it names.
takes_memory: Final[Test[memory.Allocate | kernels.ExternKernel]] = _has(Trait.TAKES_MEMORY)
#: It only ends storage.
ends: Final[Test[memory.Free]] = _has(Trait.ENDS)
#: It only shows values.
shows: Final[Test[trace.Probe]] = _has(Trait.SHOWS)
#: It is a loop over a region.
loops: Final[Test[control.While]] = _has(Trait.LOOPS)
#: It runs one of several regions, by number.
chooses: Final[Test[control.Switch]] = _has(Trait.CHOOSES)
#: It asserts a condition.
asserts: Final[Test[symbols.AssertSymbol]] = _has(Trait.ASSERTS)
#: It binds a symbol to the value of an expression.
computes: Final[Test[symbols.ComputeSymbol]] = _has(Trait.COMPUTES)
#: It binds a symbol to a value read from a buffer.
binds: Final[Test[symbols.BindSymbol]] = _has(Trait.BINDS)
#: It allocates new storage in the memory that it names.
allocates: Final[Test[memory.Allocate | memory.AllocatePool]] = _has(Trait.ALLOCATES)
#: It only takes over the storage of a buffer.
retakes: Final[Test[memory.Reuse]] = _has(Trait.RETAKES)
#: It defines a slice of a pool.
is_slice: Final[Test[memory.AllocateFromPool]] = _has(Trait.SLICES)
#: It checks a buffer against its layout.
checks_layout: Final[Test[symbols.AssertLayout]] = _has(Trait.CHECKS_LAYOUT)


def calls_kernel(line: AnyLine) -> TypeGuard[kernels.KernelCall]:
    """Return whether a line calls a kernel of the program."""
    return line.runs is Runs.STREAM and Role.CALL in own_roles(line)


def calls(line: AnyLine) -> TypeGuard[kernels.KernelCall | kernels.ExternKernel]:
    """Return whether a line calls a kernel or a library op."""
    return calls_op(line) or calls_kernel(line)


def op_of(line: AnyLine) -> str:
    """Return the library op that a line calls; empty if it calls none."""
    return line.op if calls_op(line) else ""


def allocates_one(line: AnyLine | None) -> TypeGuard[memory.Allocate]:
    """Return whether a line allocates one buffer that is not a pool."""
    return line is not None and allocates(line) and Trait.POOL not in line.traits


def asserted(line: AnyLine) -> Scalar | None:
    """Return the condition on symbols that a line asserts, if any."""
    return line.condition if asserts(line) else None


def is_view(line: AnyLine) -> TypeGuard[memory.Reinterpret]:
    """Return whether a line defines a view of a buffer's storage."""
    return Role.VIEW in own_roles(line)
