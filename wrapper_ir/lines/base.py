"""Roles and the base class of all wrapper lines.

Convention: *what a line does to a buffer is stated by the type of the field that names it*. A field
of type :data:`Def` defines a buffer, one
of type :data:`Kill` ends its storage, and so on. :func:`wrapper_ir.lines.effects.effects` is the
only reader of these roles; the verifier,
liveness, the planner, probes and the diff all go through it, so a new line needs no edit in any of
them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, TypeAlias


class Role(enum.Enum):
    """What a line does to the buffer or symbol that a field names."""

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


Def: TypeAlias = Annotated[str, Role.DEFINE]
Use: TypeAlias = Annotated[str, Role.USE]
ViewOf: TypeAlias = Annotated[str, Role.VIEW]
Read: TypeAlias = Annotated[str, Role.READ]
Kill: TypeAlias = Annotated[str, Role.KILL]
Take: TypeAlias = Annotated[str, Role.TAKE]
Peek: TypeAlias = Annotated[str, Role.PEEK]
DefSymbol: TypeAlias = Annotated[str, Role.DEFINE_SYMBOL]

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

    origin: OriginId | None = field(default=None, compare=False, repr=False)
    """Where in the model the line comes from: an index into ``Program.origins``."""
