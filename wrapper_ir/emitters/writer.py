"""Writing code: indentation, sums, heads of files, and which line of the IR text came from."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sympy

from wrapper_ir.lines.args import BufferValue, NoneValue, Value
from wrapper_ir.lines.control import BufferInput, Input, ObjectInput, ScalarInput, input_name
from wrapper_ir.lines.expr_printer import Level, Piece, ordered_args
from wrapper_ir.lines.layout import CPU, Layout
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir.lines.expr_printer import ExprPrinter
    from wrapper_ir.lines.program import Program

__all__ = ["CodeWriter", "SourceMap"]


# Writing code: indentation, sections, and which text came from which line of the IR.


@dataclass(frozen=True, slots=True)
class SourceMap:
    """A map from each line of an emitted text to the line of the program that it comes from.

    Attributes:
        paths: The path of the IR line for each text line, beginning with text line 1. None for text
            that no single line stands for (imports, headers).
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


# Sums and products as code: spaced as formatters space them, a sign where a reader looks for it.
#
# Every target that writes ``a - 2 * b`` shares these, so that terms come in the same order and
# floating-point sums round alike.


def spaced_sum(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """``a - 2 * b + 1``."""
    text = ""
    for term in ordered_args(expr):
        negative, magnitude = split_sign(term)
        printed = printer.print(magnitude, Level.PRODUCT)
        if not text:
            text = f"-{printer.print(magnitude, Level.ATOM)}" if negative else printed
        else:
            text += f" {'-' if negative else '+'} {printed}"
    return Piece(text, Level.SUM)


def spaced_product(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """``-(2 * a * b)``; with spaces around ``*``, the sign would else bind tighter."""
    negative, magnitude = split_sign(expr)
    if negative:
        return Piece(f"-{printer.print(magnitude, Level.ATOM)}", Level.UNARY)
    first, *rest = ordered_args(expr)
    head = printer.print(first, Level.PRODUCT)
    tail = (printer.print(factor, Level.PRODUCT + 1) for factor in rest)
    return Piece(" * ".join((head, *tail)), Level.PRODUCT)


def split_sign(term: sympy.Basic) -> tuple[bool, sympy.Basic]:
    """Tell whether a term is a negative number times something, and its magnitude."""
    if isinstance(term, (sympy.Integer, sympy.Float)):
        return bool(term < 0), abs(term)
    if not isinstance(term, sympy.Mul):
        return False, term
    number, *rest = ordered_args(term)
    if not (isinstance(number, (sympy.Integer, sympy.Float)) and number < 0):
        return False, term
    factors = rest if number == -1 else (-number, *rest)
    # Evaluated, the product would be multiplied out again.
    return True, factors[0] if len(factors) == 1 else sympy.Mul(*factors, evaluate=False)


# Text from outside, made harmless.

PLAIN: Final = frozenset(map(chr, range(32, 127))) - {'"', "\\"}
"""Printable ASCII that means itself in strings and comments of any target."""

_IN_PROSE: Final = {'"': "'", "\\": "/"}


def prose(text: str) -> str:
    """Return text in printable ASCII without double quotes or backslashes, for comments."""
    return "".join(char if char in PLAIN else _IN_PROSE.get(char, "?") for char in text)


# The head of an emitted text: the program's inputs, constants and results.


def header_title(program: Program, prose: Callable[[str], str]) -> str:
    """The first line; ``prose`` makes text from outside harmless in the target."""
    return f"Wrapper program {prose(program.name)}, {program.role.value}."


def header_lines(program: Program, prose: Callable[[str], str], indent: str) -> Iterator[str]:
    """The lists below the title, each after an empty line.

    Args:
        program: The program.
        prose: Makes text from outside harmless in the target's comments.
        indent: What stands before the rows of a list.
    """
    inputs = [(input_name(i), _input_type(program, i, prose)) for i in program.inputs]
    constants = [
        (name, f"{_type(program.layout(name), prose)}  {prose(constant.qualified_name)}".rstrip())
        for name, constant in program.constants.items()
    ]
    objects = [
        (name, f"{prose(item.class_name)}  {prose(item.qualified_name)}".rstrip())
        for name, item in program.objects.items()
    ]
    results = [(_result_name(v, prose), _result_type(program, v, prose)) for v in program.results]
    lists = {"Inputs": inputs, "Constants": constants, "Objects": objects, "Results": results}
    for heading, rows in lists.items():
        if rows:
            width = max(len(name) for name, _ in rows)
            yield ""
            yield f"{heading}:"
            yield from (f"{indent}{name:{width}}  {kind}".rstrip() for name, kind in rows)


def _input_type(program: Program, param: Input, prose: Callable[[str], str]) -> str:
    match param:
        case BufferInput():
            return _type(program.layout(param.name), prose) + (", donated" if param.donated else "")
        case ScalarInput():
            return program.symbols[param.symbol].kind.value
        case ObjectInput():
            return prose(param.class_name)


def _result_name(value: Value, prose: Callable[[str], str]) -> str:
    if isinstance(value, BufferValue):
        return value.buffer
    return "None" if isinstance(value, NoneValue) else prose(str(value.value))


def _result_type(program: Program, value: Value, prose: Callable[[str], str]) -> str:
    return _type(program.layout(value.buffer), prose) if isinstance(value, BufferValue) else ""


def _type(layout: Layout, prose: Callable[[str], str]) -> str:
    """``float32[4, 64]``, with strides and device where they are not the usual ones."""
    text = f"{layout.dtype.torch_name}[{', '.join(map(str, layout.size))}]"
    if not layout.is_contiguous:
        text += f" strides [{', '.join(map(str, layout.stride))}]"
    if layout.device != CPU:
        text += f" on {prose(str(layout.device))}"
    return text
