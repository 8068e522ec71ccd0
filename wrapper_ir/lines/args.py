"""Arguments of calls, values of results: small closed unions of plain data."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypeAlias

from wrapper_ir.lines.base import DefObject, DefSymbol, Read, Role, RoleIf, UseObject
from wrapper_ir.lines.expr import ByScalars, Scalar, scalar
from wrapper_ir.lines.layout import Device, DType


class Access(enum.Enum):
    """Access of a call to the contents of a buffer argument."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "readwrite"

    @property
    def word(self) -> str:
        """The word for it in the text form."""
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
    """A buffer, with what the callee does to it.

    The access is copied from the kernel's parameter or the op's schema; the verifier compares.
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
    """An object of a custom class: an input or a constant of the program, or what an op returned.

    It has state that no line shows, so calls that are given one are made in the program's order and
    never left out. It may keep what such a call is given, and give it out again.
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
    """Kinds of torch's named constants in an :class:`EnumArg`."""

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
    """A list of arguments, nested as deep as the op wants."""

    syntax: ClassVar[str] = "{items:list}"
    items: tuple[Arg, ...]


def buffers_in(args: Iterable[Arg]) -> Iterator[BufferArg]:
    """The buffers among arguments, those in lists included."""
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
"""What a call passes."""

#: A keyword argument.
NamedArg: TypeAlias = tuple[str, Arg]


class Relation(enum.Enum):
    """Relation of a result's storage to the call's arguments."""

    FRESH = "fresh"
    """New storage that nobody else holds."""
    ALIAS = "alias"
    """A view of an argument."""
    MAY_ALIAS = "may_alias"
    """New storage or a view, known only at run time: an alias for liveness, borrowed for reuse."""
    HELD = "held"
    """Storage that an object of the call may hold, now or from before: it is never reused."""


_CERTAIN: Final = (Relation.FRESH, Relation.ALIAS, Relation.HELD)


@dataclass(frozen=True, slots=True)
class ResultBuffer:
    """A buffer that a call defines: the leaf at ``path`` of its result."""

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
    """A number that a call defines: the leaf at ``path`` of its result, bound to a symbol."""

    symbol: DefSymbol
    path: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultObject:
    """An object that a call of an op defines: the leaf at ``path`` of its result.

    It may hold what the call is given, and goes when the program ends.
    """

    object: DefObject
    class_name: str
    path: tuple[int | str, ...] = ()


CallResult: TypeAlias = ResultBuffer | ResultSymbol
"""What a call defines: a buffer, or a symbol."""

OpResult: TypeAlias = CallResult | ResultObject
"""What a call of an op defines: objects as well."""


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
"""What a program or a region gives."""
