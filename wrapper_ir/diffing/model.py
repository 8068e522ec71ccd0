"""What a diff says: plain values, which can be compared, kept as JSON and rendered."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

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

T = TypeVar("T")


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
class ProgramDiff:
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

    def __bool__(self) -> bool:
        return not self.is_empty

    def __str__(self) -> str:
        return self.to_text()

    def rows(self) -> Iterator[Row]:
        """What is said of it, line by line, the summary first."""
        from wrapper_ir.diffing.render import program_rows  # noqa: PLC0415 - it imports this module

        return program_rows(self)

    def to_text(self) -> str:
        """The diff as plain text."""
        from wrapper_ir.diffing.render import to_text  # noqa: PLC0415 - as above

        return to_text(self.rows())

    def to_html(self) -> str:
        """The diff as a page of HTML that needs no other file."""
        from wrapper_ir.diffing.render import to_html  # noqa: PLC0415 - as above

        return to_html(self.rows())

    def to_json(self) -> str:
        """The diff as JSON, which :meth:`from_json` reads back."""
        return _to_json(self)

    @classmethod
    def from_json(cls, text: str) -> ProgramDiff:
        """The diff that :meth:`to_json` wrote.

        Raises:
            ValueError: It is not such a text.
        """
        return _from_json(cls, text)


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A section of an emitted text that is not the same: a function, or what is between them."""

    kind: Kind
    name: str
    """How the section begins: ``def call(args):``."""
    text: tuple[TextChange, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceDiff:
    """How two emitted texts differ, section by section; true when they do."""

    target: str
    lines_before: int = 0
    lines_after: int = 0
    sections: tuple[SourceChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the texts are the same."""
        return not self.sections

    def __bool__(self) -> bool:
        return not self.is_empty

    def __str__(self) -> str:
        return self.to_text()

    def rows(self) -> Iterator[Row]:
        """What is said of it, line by line, the summary first."""
        from wrapper_ir.diffing.render import source_rows  # noqa: PLC0415 - it imports this module

        return source_rows(self)

    def to_text(self) -> str:
        """The diff as plain text."""
        from wrapper_ir.diffing.render import to_text  # noqa: PLC0415 - as above

        return to_text(self.rows())

    def to_html(self) -> str:
        """The diff as a page of HTML that needs no other file."""
        from wrapper_ir.diffing.render import to_html  # noqa: PLC0415 - as above

        return to_html(self.rows())

    def to_json(self) -> str:
        """The diff as JSON, which :meth:`from_json` reads back."""
        return _to_json(self)

    @classmethod
    def from_json(cls, text: str) -> SourceDiff:
        """The diff that :meth:`to_json` wrote.

        Raises:
            ValueError: It is not such a text.
        """
        return _from_json(cls, text)


def _to_json(value: object) -> str:
    return json.dumps(_plain(value), indent=2) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def _from_json(cls: type[T], text: str) -> T:
    found = _read(json.loads(text), cls, "")
    assert isinstance(found, cls)
    return found


def _read(value: Any, hint: Any, where: str) -> Any:
    """A value of a type, from what JSON has of it."""
    args = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return None if value is None else _read(value, args[0], where)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_read(item, args[0], f"{where}[{n}]") for n, item in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        hints = get_type_hints(hint)
        if value.keys() != {f.name for f in dataclasses.fields(hint)}:
            raise ValueError(f"{where or 'the diff'} is no {hint.__name__}")
        return hint(**{name: _read(value[name], hints[name], f"{where}.{name}") for name in value})
    if type(value) is not hint:
        raise ValueError(f"{where or 'the diff'} is no {getattr(hint, '__name__', hint)}")
    return value
