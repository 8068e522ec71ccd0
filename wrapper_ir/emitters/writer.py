"""Writing code: indentation, sections, and which text came from which line of the IR."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CodeWriter", "SourceMap"]


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Maps each line of an emitted text to the line of the program that it comes from.

    Attributes:
        paths: The path of the IR line for each text line, ``None`` for text that no single line
            stands for (imports, headers); ``paths[0]`` is text line 1.
    """

    paths: tuple[Path | None, ...]

    def path_at(self, line: int) -> Path | None:
        """The path behind a text line, counted from 1; ``None`` where there is none."""
        return self.paths[line - 1] if 1 <= line <= len(self.paths) else None

    def lines_of(self, path: Path) -> tuple[int, ...]:
        """The text lines, counted from 1, that an IR line became."""
        return tuple(n for n, found in enumerate(self.paths, start=1) if found == path)


class CodeWriter:
    """Text under construction.

    Several writers make the sections of one file; :meth:`extend` splices them together when all are
    done, so that a line may add to any section while it is rendered.
    """

    def __init__(self, unit: str = "    ", depth: int = 0) -> None:
        self._unit = unit
        self._depth = depth
        self._lines: list[str] = []
        self._paths: list[Path | None] = []
        #: The IR line that is being rendered, None between lines.
        self.path: Path | None = None

    @property
    def width(self) -> int:
        """Columns that the current indentation takes."""
        return self._depth * len(self._unit)

    @property
    def is_empty(self) -> bool:
        """True if nothing was written."""
        return not self._lines

    def line(self, text: str = "") -> None:
        """Adds one line at the current indentation; an empty one gets none."""
        self._lines.append(self._unit * self._depth + text if text else "")
        self._paths.append(self.path)

    def lines(self, *texts: str) -> None:
        """Adds several lines."""
        for text in texts:
            self.line(text)

    def verbatim(self, text: str) -> None:
        """Adds text that may hold newlines, the first line indented and the rest as it is."""
        first, *rest = text.split("\n")
        self.line(first)
        self._lines.extend(rest)
        self._paths.extend([self.path] * len(rest))

    def blank(self, count: int = 1) -> None:
        """Adds empty lines."""
        for _ in range(count):
            self.line()

    @contextmanager
    def indent(self) -> Iterator[None]:
        """Indents what is written inside by one unit."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def at(self, path: Path | None) -> _At:
        """Records that what is written in a ``with`` block comes from an IR line."""
        return _At(self, path)

    def extend(self, other: CodeWriter) -> None:
        """Adds everything that another writer holds, as it is."""
        self._lines.extend(other._lines)
        self._paths.extend(other._paths)

    def split(self, count: int, end: str) -> Iterator[CodeWriter]:
        """The text in pieces of about ``count`` lines, each a writer of its own.

        A piece ends with a line that ends with ``end``, so that no statement is cut in two.
        """
        first = 0
        for last, line in enumerate(self._lines, start=1):
            if last == len(self._lines) or (last - first >= count and line.endswith(end)):
                piece = CodeWriter(self._unit)
                piece._lines = self._lines[first:last]
                piece._paths = self._paths[first:last]
                yield piece
                first = last

    def text(self) -> str:
        """The text, every line ended by a newline."""
        return "".join(f"{line}\n" for line in self._lines)

    def source_map(self) -> SourceMap:
        """Return which text line came from which IR line."""
        return SourceMap(tuple(self._paths))


class _At:
    """The block of :meth:`CodeWriter.at`; entered for every line, so not made of a generator."""

    __slots__ = ("_outer", "_path", "_writer")

    def __init__(self, writer: CodeWriter, path: Path | None) -> None:
        self._writer = writer
        self._path = path

    def __enter__(self) -> None:
        self._outer = self._writer.path
        self._writer.path = self._path

    def __exit__(self, *_: object) -> None:
        self._writer.path = self._outer
