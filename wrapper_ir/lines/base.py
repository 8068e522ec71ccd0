"""Roles and the base class of all wrapper lines.

Convention: *the type of a field states what the line does to the buffer that the field names*. This
holds for lines and for their arguments and results. A field of type :data:`Def` defines a buffer,
one of type :data:`Kill` ends its storage, and so on. A :class:`RoleIf` applies only if a sibling
field has a certain value. :func:`wrapper_ir.lines.effects.effects` and renaming read the roles. The
verifier, liveness analysis, the planner, probes and the diff all build on those two, so a new line
requires no change to them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

__all__ = ["Line", "OriginId", "Role"]


class Role(enum.Enum):
    """The effect of a line on the buffer, symbol, object or kernel that a field names."""

    if not TYPE_CHECKING:  # that of Enum is slow, and this is called for each line
        __hash__ = object.__hash__

    @property
    def role(self) -> Role:
        """The role itself: what a :class:`RoleIf` applies, a role always applies."""
        return self

    DEFINE = "define"
    """Defines the buffer. A buffer is defined once in a program."""
    USE = "use"
    """Needs the buffer alive but does not touch its contents (metadata only)."""
    VIEW = "view"
    """Like ``USE``; the buffer that the line defines is a view of the same storage."""
    READ = "read"
    """Reads the contents."""
    WRITE = "write"
    """Writes the contents."""
    KILL = "kill"
    """Ends the storage, and with it all its aliases."""
    TAKE = "take"
    """Ends all names of the storage; the defined buffer takes the storage over."""
    PEEK = "peek"
    """Observed by a probe. Neither extends a live range nor imposes an order."""
    DEFINE_SYMBOL = "define-symbol"
    """Binds the symbol. A symbol is bound once in a program."""
    ALIAS = "alias"
    """The buffer defined by the same part of the line is a view of this one's storage."""
    MAY_ALIAS = "may-alias"
    """The buffer defined by the same part of the line may be a view of this one's storage."""
    HOLD = "hold"
    """An object or one of the caller's tensors may hold the storage from here on."""
    OBJECT = "object"
    """Passes the object on. Its state may be read and changed."""
    DEFINE_OBJECT = "define-object"
    """Creates the object. An object is created once in a program."""
    CALL = "call"
    """Calls a kernel of the program."""
    CALL_OP = "call-op"
    """Calls a library op by its qualified name."""
    DECLARE = "declare"
    """Declares the kernel. A kernel is declared once in a program."""
    DECLARE_OP = "declare-op"
    """Declares the library op under its qualified name."""


class Trait(enum.Enum):
    """A property of a class of lines that its roles do not express."""

    if not TYPE_CHECKING:  # as for Role
        __hash__ = object.__hash__

    DECLARES = "declares"
    """Declares what lines may call. Does nothing at run time."""
    REMARK = "remark"
    """A remark for the reader."""
    SHOWS = "shows"
    """Shows values without keeping them alive or imposing an order."""
    ALLOCATES = "allocates"
    """Allocates new storage in the memory that it names."""
    POOL = "pool"
    """Allocates a pool that slices are cut from."""
    SLICES = "slices"
    """Defines a slice of a pool. The slice ends before the pool does."""
    RETAKES = "retakes"
    """Takes over the storage of another buffer and does nothing else."""
    ENDS = "ends"
    """Ends storage and does nothing else."""
    TAKES_MEMORY = "takes-memory"
    """Allocates what it defines from the memory pool that it names."""
    CALLS_OP = "calls-op"
    """Calls a library op, whose effects only its schema states."""
    MAKES_RESULTS = "makes-results"
    """Its results do not depend on their layouts, whose symbols may be bound later."""
    NO_NUMBERS = "no-numbers"
    """Needs no values of the symbols in the layouts of what it uses."""
    ANY_KIND = "any-kind"
    """Accepts tensors that are not strided."""
    OPAQUE = "opaque"
    """Accepts strided buffers and those with an opaque layout."""
    ASSERTS = "asserts"
    """Guarantees its ``condition`` from here on."""
    COMPUTES = "computes"
    """Binds its symbol to its ``value``."""
    BINDS = "binds"
    """Binds its symbol to what its ``source`` reads from a buffer."""
    CHECKS_LAYOUT = "checks-layout"
    """Guarantees the layout and the ``alignment`` of the buffer that it uses from here on."""
    CHOOSES = "chooses"
    """Runs one of its ``cases``, which its ``selector`` chooses."""
    LOOPS = "loops"
    """Runs a region for as long as another region gives true."""


class Runs(enum.Enum):
    """The place where a line is carried out: streams, events and captures follow from it."""

    if not TYPE_CHECKING:  # as for Role
        __hash__ = object.__hash__

    NAMES = "names"
    """Nowhere: it gives memory a name, or looks at a layout. Calls of equal sizes agree in it."""
    HOST = "host"
    """On the host, anew in each call, if it does anything. What it reads, it waits for."""
    STREAM = "stream"
    """On the stream that its field ``stream`` names, as work or as new memory."""
    CALLER = "caller"
    """On the caller's stream, as work or as new memory."""
    EVENT = "event"
    """On the stream that its field ``stream`` names, which it puts in order by an ``event``."""
    WAIT = "wait"
    """On the host, which waits for all streams of a device."""

    @property
    def orders(self) -> bool:
        """True if the line makes a stream or the host wait, or records what can be waited for."""
        return self in (Runs.EVENT, Runs.WAIT)


@dataclass(frozen=True, slots=True)
class RoleIf:
    """A role if the sibling ``field`` is ``among`` these: enumeration members, or else classes."""

    role: Role
    field: str
    among: tuple[object, ...]


Def: TypeAlias = Annotated[str, Role.DEFINE]
Use: TypeAlias = Annotated[str, Role.USE]
ViewOf: TypeAlias = Annotated[str, Role.VIEW]
Read: TypeAlias = Annotated[str, Role.READ]
Kill: TypeAlias = Annotated[str, Role.KILL]
Take: TypeAlias = Annotated[str, Role.TAKE]
Write: TypeAlias = Annotated[str, Role.WRITE]
Peek: TypeAlias = Annotated[str, Role.PEEK]
DefSymbol: TypeAlias = Annotated[str, Role.DEFINE_SYMBOL]
DefObject: TypeAlias = Annotated[str, Role.DEFINE_OBJECT]
UseObject: TypeAlias = Annotated[str, Role.OBJECT]
Callee: TypeAlias = Annotated[str, Role.CALL]
OpCallee: TypeAlias = Annotated[str, Role.CALL_OP]


@dataclass(frozen=True, slots=True)
class Block:
    """The name of a region, or the prefix of several, in paths and text, unless the field's."""

    name: str


#: Index into ``Program.origins``.
OriginId: TypeAlias = int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One host-side action of a wrapper program; data only.

    Lines hold names, numbers and expressions: no tensors, no emitters and, apart from kernel
    sources, no rendered text. Lines that do the same are equal, whatever their origins.
    """

    mnemonic: ClassVar[str]
    """The keyword of the line in the text form."""
    syntax: ClassVar[str]
    """The text form of the line, in the format of :mod:`wrapper_ir.lines.syntax`."""
    runs: ClassVar[Runs]
    """Where the line is carried out."""
    traits: ClassVar[frozenset[Trait]] = frozenset()
    """Properties of the class that its roles do not express."""
    nouns: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Nouns for field values in error messages; by default ``a`` and the field's name."""

    origin: OriginId | None = field(default=None, compare=False, repr=False)
    """The line's source in the model: an index into ``Program.origins``."""

    def __init_subclass__(cls) -> None:
        for name in ("mnemonic", "syntax", "runs"):
            if name not in vars(cls):
                raise TypeError(f"{cls.__name__} does not state its '{name}' (docs/add-a-line.md)")
