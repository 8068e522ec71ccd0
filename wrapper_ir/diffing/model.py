"""What a diff says: plain values, which can be compared, kept as JSON and rendered."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.diffing.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.diffing.render import Row

__all__ = [
    "FieldChange",
    "Figures",
    "ItemChange",
    "KernelChange",
    "Kind",
    "LineChange",
    "ProgramDiff",
    "RegionChange",
    "SourceChange",
    "SourceDiff",
    "TextChange",
]


class Kind(enum.Enum):
    """What became of something."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"
    """It stands elsewhere among its like; it may have changed besides."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A part that is not the same: ``size[1] 64 -> 128``."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class TextChange:
    """A stretch of text that was replaced; either side may be empty."""

    start: int
    """Number of its first line in the text after, counted from 1."""
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A change of an input, constant, symbol, result, declared op or of the program as a whole."""

    what: str
    """``input``, ``constant``, ``symbol``, ``result``, ``op``, ``buffer`` or ``program``."""
    kind: Kind
    before: str = ""
    """How the first program has it; empty where it has none."""
    after: str = ""
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelChange:
    """A kernel that only one program has, or that both have with other parameters or text."""

    kind: Kind
    before: str = ""
    """Its name in the first program."""
    after: str = ""
    fields: tuple[FieldChange, ...] = ()
    code: tuple[TextChange, ...] = ()


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line that only one program has, that stands elsewhere, or that says something else."""

    kind: Kind
    before: str = ""
    """Its path in the first program: ``body[3]``."""
    after: str = ""
    text_before: str = ""
    """The line as the first program prints it."""
    text_after: str = ""
    fields: tuple[FieldChange, ...] = ()
    regions: tuple[RegionChange, ...] = ()


@dataclass(frozen=True, slots=True)
class RegionChange:
    """What is not the same inside a region that both programs have."""

    name: str
    """``then``, ``else``, ``condition`` or ``body``."""
    items: tuple[ItemChange, ...] = ()
    lines: tuple[LineChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """A program in numbers, regions included; bytes are at the hints where sizes are symbolic."""

    lines: int = 0
    kernels: int = 0
    calls: int = 0
    """Launches of kernels."""
    ops: int = 0
    """Calls of library ops."""
    allocations: int = 0
    allocated_bytes: int = 0
    """Of allocations and pools."""
    peak_bytes: int | None = None
    """The most held at once; at least needed where memory is not planned yet. None if unknown."""


@dataclass(frozen=True, slots=True)
class ProgramDiff(Report):
    """How two programs differ; true when they do."""

    before: Figures = field(default_factory=Figures)
    after: Figures = field(default_factory=Figures)
    items: tuple[ItemChange, ...] = ()
    kernels: tuple[KernelChange, ...] = ()
    lines: tuple[LineChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the programs are the same but for names and origins."""
        return not (self.items or self.kernels or self.lines)

    def rows(self) -> Iterator[Row]:
        """What is said of it, line by line, the summary first."""
        from wrapper_ir.diffing.render import program_rows  # noqa: PLC0415 - it imports this module

        return program_rows(self)


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A section of an emitted text that is not the same: a function, or what is between them."""

    kind: Kind
    name: str
    """How the section begins: ``def call(args):``."""
    text: tuple[TextChange, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceDiff(Report):
    """How two emitted texts differ, section by section; true when they do."""

    target: str
    lines_before: int = 0
    lines_after: int = 0
    sections: tuple[SourceChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the texts are the same."""
        return not self.sections

    def rows(self) -> Iterator[Row]:
        """What is said of it, line by line, the summary first."""
        from wrapper_ir.diffing.render import source_rows  # noqa: PLC0415 - it imports this module

        return source_rows(self)
