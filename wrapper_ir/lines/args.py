"""Arguments of calls and values of results: small closed unions of plain data."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypeAlias

from wrapper_ir.lines.base import DefObject, DefSymbol, Read, Role, RoleIf, UseObject
from wrapper_ir.lines.expr import ByScalars, Scalar, scalar
from wrapper_ir.lines.layout import Device, DType

__all__ = ["Access", "Arg", "BufferArg", "BufferValue", "CallResult", "DTypeArg", "DeviceArg"]
__all__ += ["EnumArg", "EnumKind", "ListArg", "NamedArg", "NoneArg", "NoneValue", "ObjectArg"]
__all__ += ["OpResult", "Relation", "ResultBuffer", "ResultObject", "ResultSymbol", "ScalarArg"]
__all__ += ["ScalarValue", "StringArg", "Value"]


class Access(enum.Enum):
    """Access of a call to the contents of a buffer argument."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "readwrite"

    @property
    def word(self) -> str:
        """The keyword in the text form."""
        return {"read": "in", "write": "out", "readwrite": "inout"}[self.value]

    @property
    def reads(self) -> bool:
        """True if the contents are read."""
        return self is not Access.WRITE

    @property
    def writes(self) -> bool:
        """True if the contents are written."""
        return self is not Access.READ


@dataclass(frozen=True, slots=True)
class BufferArg:
    """A buffer and the callee's access to it.

    The access repeats that of the kernel's parameter or the op's schema. The verifier compares
    them.
    """

    syntax: ClassVar[str] = "[{access} ]{buffer}"
    buffer: Annotated[
        str,
        RoleIf(Role.READ, "access", (Access.READ, Access.READ_WRITE)),
        RoleIf(Role.WRITE, "access", (Access.WRITE, Access.READ_WRITE)),
    ]
    access: Access = Access.READ


@dataclass(frozen=True, slots=True, eq=False)
class ScalarArg(ByScalars):
    """A number or a symbolic expression."""

    syntax: ClassVar[str] = "{value}"
    value: Scalar

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", scalar(self.value))


@dataclass(frozen=True, slots=True)
class ObjectArg:
    """An object of a custom class: an input or constant of the program, or the result of an op.

    An object has state that no line shows, so calls that take one are neither reordered nor
    removed. It may hold on to the other arguments of a call and return them later.
    """

    syntax: ClassVar[str] = "{object}"
    object: UseObject


@dataclass(frozen=True, slots=True)
class NoneArg:
    """No value: torch's ``None``."""

    syntax: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True)
class StringArg:
    """A string."""

    syntax: ClassVar[str] = "{value}"
    value: str


@dataclass(frozen=True, slots=True)
class DTypeArg:
    """An element type."""

    syntax: ClassVar[str] = "{dtype}"
    dtype: DType


@dataclass(frozen=True, slots=True)
class DeviceArg:
    """A device."""

    syntax: ClassVar[str] = "{device}"
    device: Device


class EnumKind(enum.Enum):
    """Kind of a named constant of torch in an :class:`EnumArg`."""

    LAYOUT = "layout"
    MEMORY_FORMAT = "memory_format"


@dataclass(frozen=True, slots=True)
class EnumArg:
    """A named constant of torch, such as ``strided`` or ``channels_last``."""

    syntax: ClassVar[str] = "{kind}.{name:identifier}"
    nouns: ClassVar[Mapping[str, str]] = {"name": "the constant"}
    kind: EnumKind
    name: str


@dataclass(frozen=True, slots=True)
class ListArg:
    """A list of arguments, which may be lists themselves."""

    syntax: ClassVar[str] = "{items:list}"
    items: tuple[Arg, ...]


def buffers_in(args: Iterable[Arg]) -> Iterator[BufferArg]:
    """Yield the buffers among arguments, including those in lists."""
    for arg in args:
        if isinstance(arg, BufferArg):
            yield arg
        elif isinstance(arg, ListArg):
            yield from buffers_in(arg.items)


Arg: TypeAlias = (
    BufferArg
    | ScalarArg
    | ObjectArg
    | NoneArg
    | StringArg
    | DTypeArg
    | DeviceArg
    | EnumArg
    | ListArg
)
"""An argument of a call."""

#: A keyword argument.
NamedArg: TypeAlias = tuple[str, Arg]


class Relation(enum.Enum):
    """Relation of a result's storage to the arguments of the call."""

    FRESH = "fresh"
    """New storage that nothing else holds."""
    ALIAS = "alias"
    """A view of an argument."""
    MAY_ALIAS = "may_alias"
    """New storage or a view, known only at run time. An alias for liveness, never reused."""
    HELD = "held"
    """Storage that an object of the call may hold, so it is never reused."""


_CERTAIN: Final = (Relation.FRESH, Relation.ALIAS, Relation.HELD)


@dataclass(frozen=True, slots=True)
class ResultBuffer:
    """A buffer defined by a call: the leaf at ``path`` of its result."""

    out: Annotated[str, Role.DEFINE, RoleIf(Role.HOLD, "relation", (Relation.HELD,))]
    path: tuple[int | str, ...] = ()
    relation: Relation = Relation.FRESH
    of: tuple[
        Annotated[
            str,
            RoleIf(Role.ALIAS, "relation", _CERTAIN),
            RoleIf(Role.MAY_ALIAS, "relation", (Relation.MAY_ALIAS,)),
        ],
        ...,
    ] = ()
    """The arguments that the result aliases or may alias."""


@dataclass(frozen=True, slots=True)
class ResultSymbol:
    """A symbol bound by a call to the number at ``path`` of its result."""

    symbol: DefSymbol
    path: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultObject:
    """An object created by an op call: the leaf at ``path`` of its result.

    It may hold the call's arguments, and lives until the program ends.
    """

    object: DefObject
    class_name: str
    path: tuple[int | str, ...] = ()


CallResult: TypeAlias = ResultBuffer | ResultSymbol
"""A result of a call: a buffer or a symbol."""

OpResult: TypeAlias = CallResult | ResultObject
"""A result of an op call, which may also be an object."""


@dataclass(frozen=True, slots=True)
class BufferValue:
    """A buffer among the results of a program or a region."""

    syntax: ClassVar[str] = "{buffer}"
    buffer: Read


@dataclass(frozen=True, slots=True, eq=False)
class ScalarValue(ByScalars):
    """A number among the results of a program or a region."""

    syntax: ClassVar[str] = "{value}"
    value: Scalar

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", scalar(self.value))


@dataclass(frozen=True, slots=True)
class NoneValue:
    """``None`` among the results of a program or a region."""

    syntax: ClassVar[str] = "none"


Value: TypeAlias = BufferValue | ScalarValue | NoneValue
"""A result of a program or a region."""
