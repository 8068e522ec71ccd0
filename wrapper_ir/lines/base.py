"""Roles and the base class of all wrapper lines.

Convention: *what a line does to a buffer is stated by the type of the field that names it*, in the
line itself and in its arguments and results alike. A field of type :data:`Def` defines a buffer,
one of type :data:`Kill` ends its storage, and so on; :class:`RoleIf` gives a role that a field
beside it decides. :func:`wrapper_ir.lines.effects.effects` and the renaming of names read the
roles; the verifier, liveness, the planner, probes and the diff ask those two, so a new line needs
no edit in any of them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, ClassVar, TypeAlias


class Role(enum.Enum):
    """What a line does to the buffer or symbol that a field names."""

    __hash__ = object.__hash__  # an enumeration's own is slow, and is asked for each line

    DEFINE = "define"
    """The name is defined here, once in the program."""
    USE = "use"
    """The buffer must be alive; its contents are not touched (metadata only)."""
    VIEW = "view"
    """Like ``USE``, and the buffer that the line defines is a view of the same storage."""
    READ = "read"
    """The contents are read."""
    WRITE = "write"
    """The contents are written."""
    KILL = "kill"
    """The storage, and with it every alias of it, ends here."""
    TAKE = "take"
    """Every name of the storage ends here and the storage goes on under the defined name."""
    PEEK = "peek"
    """Looked at by a probe: neither extends a lifetime nor orders anything."""
    DEFINE_SYMBOL = "define-symbol"
    """The symbol is bound here, once in the program."""
    ALIAS = "alias"
    """The buffer that the same part of the line defines is a view of this one's storage."""
    MAY_ALIAS = "may-alias"
    """The buffer that the same part of the line defines is perhaps a view of this one's storage."""
    HOLD = "hold"
    """An object, or a tensor of the caller's, may hold the storage from here on."""
    OBJECT = "object"
    """An object that is handed on: its state may be read and changed."""
    DEFINE_OBJECT = "define-object"
    """The object is made here, once in the program."""
    CALL = "call"
    """A kernel of the program is called."""
    CALL_OP = "call-op"
    """A library op is called, by the name that its library has for it."""
    DECLARE = "declare"
    """The kernel is defined here, once in the program."""
    DECLARE_OP = "declare-op"
    """The library op is declared here, under its own name."""


class Trait(enum.Enum):
    """A property of a class of lines that its roles do not say."""

    __hash__ = object.__hash__  # as of roles

    DECLARES = "declares"
    """It says what lines may call, and does nothing when the program runs."""
    REMARK = "remark"
    """It is for the reader alone."""
    SHOWS = "shows"
    """It shows values, and neither keeps them alive nor orders anything."""
    ALLOCATES = "allocates"
    """It takes new storage from an allocator, in the memory that it names."""
    POOL = "pool"
    """Its storage is there to be cut up by others."""
    SLICES = "slices"
    """What it defines is a part of a pool, which ends before the pool does."""
    RETAKES = "retakes"
    """It goes on with the storage of another name, and does nothing else."""
    ENDS = "ends"
    """It ends storage, and does nothing else."""
    WORKS = "works"
    """It puts work, or takes memory, on the stream that it names."""
    ORDERS = "orders"
    """It has a stream, or the host, wait for work, or says what can be waited for."""
    TAKES_MEMORY = "takes-memory"
    """What it defines is from the memory pool that it names."""
    CALLS_OP = "calls-op"
    """It calls a library op, which may do what only its schema says."""
    MAKES_RESULTS = "makes-results"
    """Its results exist whatever their layouts say; symbols in those may be bound later."""
    NO_NUMBERS = "no-numbers"
    """It asks for no numbers in the layouts of what it uses."""
    ANY_KIND = "any-kind"
    """It takes tensors that are not strided."""
    OPAQUE = "opaque"
    """It takes buffers whose layout only the device understands, besides strided ones."""
    ASSERTS = "asserts"
    """Its ``condition`` holds from here on."""
    COMPUTES = "computes"
    """Its symbol is its ``value``."""
    BINDS = "binds"
    """Its symbol is what its ``source`` finds in a buffer."""
    CHECKS_LAYOUT = "checks-layout"
    """The buffer that it uses is as its layout says from here on, and as its ``alignment`` does."""
    LOOPS = "loops"
    """It runs a region until another one says that it is done."""


@dataclass(frozen=True, slots=True)
class RoleIf:
    """A role that a field has where the field beside it called ``field`` holds one of ``among``.

    What counts is the value of an enumeration, and of other values the class.
    """

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
    """The name of a region in paths and in the text form, where not that of its field.

    Of a tuple of regions it is the word before their numbers.
    """

    name: str


#: Index into ``Program.origins``.
OriginId: TypeAlias = int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One host-side action of a wrapper program; data only.

    Lines hold names, numbers and expressions: no tensors, no emitters, no rendered text (kernel
    sources aside). Two lines are equal when
    they do the same; where they came from does not count.
    """

    mnemonic: ClassVar[str]
    """The word that opens the line in the text form."""
    syntax: ClassVar[str]
    """How the line is written; :mod:`wrapper_ir.lines.syntax` has the format."""
    traits: ClassVar[frozenset[Trait]] = frozenset()
    """What the class is like, where its roles do not say so."""
    nouns: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What messages call what fields hold, where not ``a`` and the field's name."""

    origin: OriginId | None = field(default=None, compare=False, repr=False)
    """Where in the model the line comes from: an index into ``Program.origins``."""
