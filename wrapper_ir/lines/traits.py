"""Queries on classes of lines: which fields hold names or regions, and which traits are set."""

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
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import sympy

from wrapper_ir.lines.base import Block, Role, RoleIf, Runs, Trait
from wrapper_ir.lines.control import AnyLine, Region, Switch, While
from wrapper_ir.lines.expr import Scalar
from wrapper_ir.lines.kernels import (
    ExternKernel,
    KernelCall,
    KernelDefinition,
    RecordEvent,
    WaitEvent,
)
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    Reinterpret,
    Reuse,
)
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, BindSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Probe

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
            role if isinstance(role, Role) else role.role
            for role in self.roles
            if isinstance(role, Role) or decisive(getattr(part, role.field)) in role.among
        )


def decisive(value: object) -> object:
    """Return what :class:`RoleIf` compares: a member of an enumeration, else the class."""
    return value if isinstance(value, enum.Enum) else type(value)


def own_roles(line: object) -> tuple[Role, ...]:
    """Return the roles in a line's own fields, without those of its arguments."""
    return _OWN_ROLES[type(line)]


def _own_roles(cls: type) -> tuple[Role, ...]:
    given = (role for field in NAMED_FIELDS[cls] for role in field.roles)
    return tuple(role if isinstance(role, Role) else role.role for role in given)


def hints_of(cls: type) -> dict[str, Any]:
    """Return the types of a class's fields, with their roles."""
    return get_type_hints(cls, include_extras=True, localns={"AnyLine": object})


class RegionField(NamedTuple):
    """A field that holds a region or, with ``many``, a numbered tuple of regions."""

    name: str
    block: str
    """The name of the region in paths and in the text form."""
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
    """Return the roles in ``Annotated[str, roles]``, also inside a tuple or optional."""
    if get_origin(hint) is Annotated:
        return tuple(extra for extra in hint.__metadata__ if isinstance(extra, (Role, RoleIf)))
    return next(filter(None, map(_roles, get_args(hint))), ())


def _can_name(hint: Any, seen: tuple[Any, ...]) -> bool:
    """Return whether a value of this type can hold names. When in doubt, true."""
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


def declares(line: AnyLine) -> TypeGuard[KernelDefinition]:
    """Return whether a line only declares what lines may call."""
    return Trait.DECLARES in line.traits


def calls_op(line: AnyLine) -> TypeGuard[ExternKernel]:
    """Return whether a line calls a library op."""
    return Trait.CALLS_OP in line.traits


def calls_kernel(line: AnyLine) -> TypeGuard[KernelCall]:
    """Return whether a line calls a kernel of the program."""
    return line.runs is Runs.STREAM and Role.CALL in own_roles(line)


def calls(line: AnyLine) -> TypeGuard[KernelCall | ExternKernel]:
    """Return whether a line calls a kernel or a library op."""
    return calls_op(line) or calls_kernel(line)


def op_of(line: AnyLine) -> str:
    """Return the library op that a line calls; empty if it calls none."""
    return line.op if calls_op(line) else ""


def works(line: AnyLine) -> TypeGuard[Allocate | KernelCall | ExternKernel]:
    """Return whether a line launches work or allocates memory on the stream that it names."""
    return line.runs is Runs.STREAM


def has_event(line: AnyLine) -> TypeGuard[RecordEvent | WaitEvent]:
    """Return whether a line records an event on the stream that it names, or waits for one."""
    return line.runs is Runs.EVENT


def takes_memory(line: AnyLine) -> TypeGuard[Allocate | ExternKernel]:
    """Return whether a line defines buffers from the memory pool that it names."""
    return Trait.TAKES_MEMORY in line.traits


def allocates_one(line: AnyLine | None) -> TypeGuard[Allocate]:
    """Return whether a line allocates one buffer that is not a pool."""
    if line is None:
        return False
    return Trait.ALLOCATES in line.traits and Trait.POOL not in line.traits


def ends(line: AnyLine) -> TypeGuard[Free]:
    """Return whether a line only ends storage."""
    return Trait.ENDS in line.traits


def shows(line: AnyLine) -> TypeGuard[Probe]:
    """Return whether a line only shows values."""
    return Trait.SHOWS in line.traits


def loops(line: AnyLine) -> TypeGuard[While]:
    """Return whether a line is a loop over a region."""
    return Trait.LOOPS in line.traits


def chooses(line: AnyLine) -> TypeGuard[Switch]:
    """Return whether a line runs one of several regions, by number."""
    return Trait.CHOOSES in line.traits


def asserts(line: AnyLine) -> TypeGuard[AssertSymbol]:
    """Return whether a line asserts a condition."""
    return Trait.ASSERTS in line.traits


def computes(line: AnyLine) -> TypeGuard[ComputeSymbol]:
    """Return whether a line binds a symbol to the value of an expression."""
    return Trait.COMPUTES in line.traits


def asserted(line: AnyLine) -> Scalar | None:
    """Return the condition on symbols that a line asserts, if any."""
    return line.condition if asserts(line) else None


def binds(line: AnyLine) -> TypeGuard[BindSymbol]:
    """Return whether a line binds a symbol to a value read from a buffer."""
    return Trait.BINDS in line.traits


def allocates(line: AnyLine) -> TypeGuard[Allocate | AllocatePool]:
    """Return whether a line allocates new storage in the memory that it names."""
    return Trait.ALLOCATES in line.traits


def is_view(line: AnyLine) -> TypeGuard[Reinterpret]:
    """Return whether a line defines a view of a buffer's storage."""
    return Role.VIEW in own_roles(line)


def retakes(line: AnyLine) -> TypeGuard[Reuse]:
    """Return whether a line only takes over the storage of a buffer."""
    return Trait.RETAKES in line.traits


def is_slice(line: AnyLine) -> TypeGuard[AllocateFromPool]:
    """Return whether a line defines a slice of a pool."""
    return Trait.SLICES in line.traits


def checks_layout(line: AnyLine) -> TypeGuard[AssertLayout]:
    """Return whether a line checks a buffer against its layout."""
    return Trait.CHECKS_LAYOUT in line.traits
