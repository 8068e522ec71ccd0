"""Lines without effect on the program's values: comments and probes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from wrapper_ir.lines.base import Line, Peek, Runs, Trait
from wrapper_ir.lines.expr import ByScalars, Scalar, scalar

__all__ = ["Comment", "Probe", "ProbeLevel", "When"]


@final
@dataclass(frozen=True, slots=True)
class Comment(Line):
    """``// text`` — a remark for the reader, kept in every target."""

    mnemonic: ClassVar[str] = "//"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.REMARK})
    syntax: ClassVar[str] = "//[ {text:rest}]"
    text: str


class When(enum.Enum):
    """Position of a probe relative to its call."""

    BEFORE = "before"
    AFTER = "after"


class ProbeLevel(enum.Enum):
    """Action of a probe. The first three are Inductor's levels 1 to 3."""

    SAVE = "save"
    PRINT = "print"
    NAMES = "names"
    CHECK = "check"
    STATS = "stats"
    COMPARE = "compare"
    HOOK = "hook"
    CHECK_NAN = "check_nan"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Probe(Line):
    """``probe before "label" print(%buffers, scalars)`` — shows values next to a call.

    It extends no live range and imposes no order.
    """

    mnemonic: ClassVar[str] = "probe"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.SHOWS})
    syntax: ClassVar[str] = "probe {when} {label} {level}{buffers, scalars}"
    nouns: ClassVar[Mapping[str, str]] = {
        "when": "'before' or 'after'",
        "level": "what a probe does",
    }
    label: str
    when: When
    level: ProbeLevel
    buffers: tuple[Peek, ...] = ()
    scalars: tuple[Scalar, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "scalars", tuple(map(scalar, self.scalars)))

    if not TYPE_CHECKING:  # a dataclass would make its own
        __eq__ = ByScalars.__eq__
        __hash__ = ByScalars.__hash__
