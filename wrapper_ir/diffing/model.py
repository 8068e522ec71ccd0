"""Diffs as plain values that can be compared, stored as JSON, and rendered.

Their presentation, row by row, is decided here.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import textwrap
import types
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

__all__ = ["FieldChange", "Figures", "ItemChange", "KernelChange", "Kind", "LineChange"]
__all__ += ["ProgramDiff", "RegionChange", "SourceChange", "SourceDiff", "TextChange"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a rendered diff; ``style`` is its role, which determines its colour."""

    text: str
    style: str = "plain"
    depth: int = 0


def to_text(rows: Iterable[Row]) -> str:
    """Return rows as plain text."""
    return "".join(f"{'  ' * row.depth}{row.text}".rstrip() + "\n" for row in rows)


#: The sixteen colours of the terminal, so that any theme fits.
_STYLES: Final = {
    "title": "bold",
    "heading": "bold blue",
    "added": "green",
    "removed": "red",
    "changed": "yellow",
    "moved": "cyan",
    "field": "",
    "place": "bright_black",
    "same": "bright_black",
    "plain": "",
}


def to_rich(rows: Iterable[Row]) -> Iterator[Text]:
    """Yield coloured lines for a terminal; no text in them is interpreted as markup."""
    from rich.text import Text  # noqa: PLC0415 - only where it is shown

    for row in rows:
        yield Text("  " * row.depth + row.text, _STYLES[row.style])


# The diffs.


class Kind(enum.Enum):
    """The kind of a change: present in one program only, changed, or moved."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"
    """In a different place; possibly changed as well."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A part that differs: ``size[1] 64 -> 128``."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class TextChange:
    """A replaced range of lines; either side may be empty."""

    start: int
    """The number of its first line in the new text, counted from 1."""
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    def rows(self, depth: int) -> Iterator[Row]:
        """Yield the place and the lines of both sides."""
        yield Row(f"line {self.start}", "place", depth)
        lines = textwrap.dedent("\n".join((*self.removed, *self.added))).split("\n")
        for number, text in enumerate(lines):
            kind = Kind.REMOVED if number < len(self.removed) else Kind.ADDED
            yield Row(f"{'-' if kind is Kind.REMOVED else '+'} {text}", kind.value, depth)


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A change of an input, constant, symbol, result, declared op or the program as a whole."""

    what: str
    """``input``, ``constant``, ``symbol``, ``result``, ``op``, ``buffer`` or ``program``."""
    kind: Kind
    before: str = ""
    """The entry in the first program; empty if it has none."""
    after: str = ""
    fields: tuple[FieldChange, ...] = ()

    def rows(self, depth: int) -> Iterator[Row]:
        """Yield the item, in both versions if its fields do not show the change, and its fields."""
        before = "" if self.fields and self.kind is Kind.CHANGED else self.before
        yield _headed(self.kind, f"{self.what} {_names(before, self.after, '')}", depth)
        yield from _fields(self.fields, depth + 1)


@dataclass(frozen=True, slots=True)
class KernelChange:
    """A kernel in one program only, or with different parameters or text in both."""

    kind: Kind
    before: str = ""
    """Its name in the first program."""
    after: str = ""
    fields: tuple[FieldChange, ...] = ()
    code: tuple[TextChange, ...] = ()

    def rows(self, depth: int) -> Iterator[Row]:
        """Yield the kernel's names, its fields and its text."""
        yield _headed(self.kind, _names(self.before, self.after, "@"), depth)
        yield from _fields(self.fields, depth + 1)
        yield from _all(self.code, depth + 1)


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line in one program only, or one that moved or changed."""

    kind: Kind
    before: str = ""
    """Its path in the first program: ``body[3]``."""
    after: str = ""
    text_before: str = ""
    """The line as the first program prints it."""
    text_after: str = ""
    fields: tuple[FieldChange, ...] = ()
    regions: tuple[RegionChange, ...] = ()

    def rows(self, depth: int) -> Iterator[Row]:
        """Yield the line with its paths, its fields and its regions."""
        text = self.text_after or self.text_before
        yield _headed(self.kind, f"{_names(self.before, self.after, '')}  {text}", depth)
        if any(each.name == "line" for each in self.fields):
            yield Row(f"was: {self.text_before}", "field", depth + 1)
        yield from _fields([each for each in self.fields if each.name != "line"], depth + 1)
        yield from _all(self.regions, depth + 1)

    def inside(self) -> Iterator[LineChange]:
        """Yield this change and those in its regions."""
        yield self
        for region in self.regions:
            for line in region.lines:
                yield from line.inside()


@dataclass(frozen=True, slots=True)
class RegionChange:
    """The changes inside a region that exists in both programs."""

    name: str
    """``then``, ``else``, ``condition`` or ``body``."""
    items: tuple[ItemChange, ...] = ()
    lines: tuple[LineChange, ...] = ()

    def rows(self, depth: int) -> Iterator[Row]:
        """Yield the region's name and its changes."""
        yield Row(f"in {self.name}:", "field", depth)
        yield from _all((*self.items, *self.lines), depth + 1)


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts of a program, including regions; symbolic sizes are taken at their hints."""

    lines: int = 0
    kernels: int = 0
    calls: int = 0
    """Launches of kernels."""
    ops: int = 0
    """Calls of library ops."""
    checks: int = 0
    """Lines that check layouts, shared memory and relations among sizes."""
    allocations: int = 0
    allocated_bytes: int = 0
    """The bytes of allocations and pools."""
    peak_bytes: int | None = None
    """The peak of held bytes, or the lower bound if memory is not planned. None if unknown."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A section of an emitted text that differs: a function, or the text between two functions."""

    kind: Kind
    name: str
    """The first line of the section: ``def call(args):``."""
    text: tuple[TextChange, ...] = ()

    def rows(self, depth: int) -> Iterator[Row]:
        """Yield an empty row, the section's name and its text."""
        yield Row("")
        yield _headed(self.kind, self.name, depth)
        yield from _all(self.text, depth + 1)


class Report(ABC):
    """The base of the diffs, which are frozen dataclasses; true if something differs."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """True if nothing differs."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield the diff row by row, starting with the summary."""

    def __bool__(self) -> bool:
        return not self.is_empty

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Return the diff as plain text."""
        return to_text(self.rows())

    def to_json(self) -> str:
        """Return the diff as JSON, which :meth:`from_json` reads back."""
        fields: Any = self
        values = dataclasses.asdict(fields)
        return json.dumps(values, indent=2, default=lambda each: each.value) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a diff that :meth:`to_json` wrote.

        Raises:
            ValueError: The text is not such a diff.
        """
        result = _read(json.loads(text), cls, "")
        assert isinstance(result, cls)
        return result


@dataclass(frozen=True, slots=True)
class ProgramDiff(Report):
    """The differences between two programs; true if there are any."""

    before: Figures = field(default_factory=Figures)
    after: Figures = field(default_factory=Figures)
    items: tuple[ItemChange, ...] = ()
    kernels: tuple[KernelChange, ...] = ()
    lines: tuple[LineChange, ...] = ()
    folding: ProgramDiff | None = None
    """The differences between the programs that compute folded constants, if there are any."""

    @property
    def is_empty(self) -> bool:
        """True if the programs differ at most in names and origins."""
        return not (self.items or self.kernels or self.lines or self.folding)

    def rows(self) -> Iterator[Row]:
        """Yield the diff row by row: the summary, then kernels, tables and lines."""
        if self.is_empty:
            yield Row("The programs are the same.", "title")
            return
        yield Row(self.headline, "title")
        yield Row("")
        for name, words in FIGURES.items():
            old, new = getattr(self.before, name), getattr(self.after, name)
            texts = ["?" if number is None else f"{number:,}" for number in (old, new)]
            change, style = ("", "same") if old == new else (f"  -> {texts[1]}", "changed")
            yield Row(f"{words:<22}{texts[0]:>14}{change}", style, 1)
        for heading, changes in (
            ("kernels", self.kernels),
            ("inputs, constants, symbols, results", self.items),
            ("lines", self.lines),
        ):
            if changes:
                yield Row("")
                yield Row(heading, "heading")
                yield from _all(changes, 1)
        if self.folding is not None:
            yield from (Row(""), Row("folding", "heading"))
            yield from (Row(r.text, r.style, r.depth + 1) for r in self.folding.rows())

    @property
    def headline(self) -> str:
        """What changed, counted, in a line."""
        groups: dict[str, Iterable[KernelChange | LineChange | ItemChange]] = {
            "kernel": self.kernels,
            "line": [inner for line in self.lines for inner in line.inside()],
            **{what: [item for item in self.items if item.what == what] for what in _ITEMS},
        }
        counted = {what: _counted(changes) for what, changes in groups.items()}
        texts = [f"{what}s: {counts}" for what, counts in counted.items() if counts]
        return "; ".join([*texts, *(["folding: changed"] if self.folding else [])])


@dataclass(frozen=True, slots=True)
class SourceDiff(Report):
    """The differences between two emitted texts, by section; true if there are any."""

    target: str
    lines_before: int = 0
    lines_after: int = 0
    sections: tuple[SourceChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the texts are the same."""
        return not self.sections

    def rows(self) -> Iterator[Row]:
        """Yield the diff row by row, starting with the summary."""
        if self.is_empty:
            yield Row(f"The texts for {self.target} are the same.", "title")
            return
        added = sum(len(t.added) for s in self.sections for t in s.text)
        removed = sum(len(t.removed) for s in self.sections for t in s.text)
        yield Row(f"{self.target}, sections: {_counted(self.sections)}", "title")
        lines = f"{self.lines_before} -> {self.lines_after}, {removed} removed, {added} added"
        yield Row(f"lines {lines}", depth=1)
        yield from _all(self.sections, 1)


_MARKS: Final = {Kind.ADDED: "+", Kind.REMOVED: "-", Kind.CHANGED: "~", Kind.MOVED: ">"}

#: Kinds of items, in the order of the headline.
_ITEMS: Final = ("program", "input", "constant", "symbol", "op", "buffer", "result")

#: What the figures of programs are called, in the order in which they are shown.
FIGURES: Final = {
    "kernels": "kernels",
    "calls": "calls of kernels",
    "ops": "calls of library ops",
    "checks": "checks",
    "lines": "lines",
    "allocations": "allocations",
    "allocated_bytes": "bytes allocated",
    "peak_bytes": "bytes at the peak",
}


def _headed(kind: Kind, text: str, depth: int) -> Row:
    return Row(f"{_MARKS[kind]} {text}", kind.value, depth)


def _names(before: str, after: str, mark: str) -> str:
    names = [f"{mark}{name}" for name in dict.fromkeys((before, after)) if name]
    return " -> ".join(names)


def _fields(fields: Iterable[FieldChange], depth: int) -> Iterator[Row]:
    for each in fields:
        yield Row(f"{each.name} {each.before} -> {each.after}", "field", depth)


def _all(changes: Iterable[Any], depth: int) -> Iterator[Row]:
    for change in changes:
        yield from change.rows(depth)


def _counted(changes: Iterable[KernelChange | LineChange | ItemChange | SourceChange]) -> str:
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{counts[kind]} {kind.value}" for kind in Kind if counts[kind])


def _read(value: Any, hint: Any, where: str) -> Any:
    """Return a value of type ``hint`` from its JSON form."""
    args = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return None if value is None else _read(value, args[0], where)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_read(item, args[0], f"{where}[{n}]") for n, item in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        hints = get_type_hints(hint)
        if value.keys() == {f.name for f in dataclasses.fields(hint)}:
            parts = {name: _read(value[name], hints[name], f"{where}.{name}") for name in value}
            return hint(**parts)
    elif type(value) is hint:
        return value
    raise ValueError(f"{where or 'the diff'} is not a {getattr(hint, '__name__', hint)}")
