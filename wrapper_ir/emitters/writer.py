"""Writing code: indentation, source maps, spaced sums, harmless text, and file headers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sympy

from wrapper_ir.lines import expr as vocabulary
from wrapper_ir.lines.args import BufferValue, NoneValue, Value
from wrapper_ir.lines.control import BufferInput, Input, ObjectInput, ScalarInput, input_name
from wrapper_ir.lines.expr_printer import ExprPrinter, Form, Level, Piece, infix, ordered_args
from wrapper_ir.lines.layout import CPU, Layout
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.lines.program import Program

__all__ = ["CodeWriter", "SourceMap"]


@dataclass(frozen=True, slots=True)
class SourceMap:
    """A map from each line of an emitted text to the line of the program that it comes from.

    Attributes:
        paths: The path of the IR line for each text line, beginning with text line 1. None for text
            that no single line stands for (imports, headers).
    """

    paths: tuple[Path | None, ...]

    def path_at(self, line: int) -> Path | None:
        """Return the path for a text line, counted from 1; None if it has none."""
        return self.paths[line - 1] if 1 <= line <= len(self.paths) else None

    def lines_of(self, path: Path) -> tuple[int, ...]:
        """Return the text lines, counted from 1, that an IR line became."""
        return tuple(n for n, found in enumerate(self.paths, start=1) if found == path)


class CodeWriter:
    """Text under construction.

    Several writers make the sections of one file; :meth:`extend` joins them at the end, so that
    rendering a line may add to any section.
    """

    def __init__(self, unit: str = "    ", depth: int = 0) -> None:
        self._unit = unit
        self._depth = depth
        self._lines: list[str] = []
        self._paths: list[Path | None] = []
        #: The IR line that is being rendered; None between lines.
        self.path: Path | None = None

    @property
    def width(self) -> int:
        """The columns that the current indentation takes."""
        return self._depth * len(self._unit)

    @property
    def is_empty(self) -> bool:
        """True if nothing has been written."""
        return not self._lines

    def line(self, text: str = "") -> None:
        """Add one line at the current indentation; an empty line is not indented."""
        self._lines.append(self._unit * self._depth + text if text else "")
        self._paths.append(self.path)

    def lines(self, *texts: str) -> None:
        """Add several lines."""
        for text in texts:
            self.line(text)

    def verbatim(self, text: str) -> None:
        """Add text that may contain newlines; only its first line is indented."""
        first, *rest = text.split("\n")
        self.line(first)
        self._lines.extend(rest)
        self._paths.extend([self.path] * len(rest))

    def blank(self, count: int = 1) -> None:
        """Add empty lines."""
        for _ in range(count):
            self.line()

    @contextmanager
    def indent(self) -> Iterator[None]:
        """Indent everything written in the block by one unit."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def at(self, path: Path | None) -> _At:
        """Attribute everything written in a ``with`` block to an IR line."""
        return _At(self, path)

    def extend(self, other: CodeWriter) -> None:
        """Append the contents of another writer unchanged."""
        self._lines.extend(other._lines)
        self._paths.extend(other._paths)

    def split(self, count: int, end: str) -> Iterator[CodeWriter]:
        """Yield the text in pieces of about ``count`` lines, each in a writer of its own.

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
        """Return the text; every line ends with a newline."""
        return "".join(f"{line}\n" for line in self._lines)

    def source_map(self) -> SourceMap:
        """Return the map from text lines to IR lines."""
        return SourceMap(tuple(self._paths))


class _At:
    """The block of :meth:`CodeWriter.at`. Entered for every line, so a class, not a generator."""

    __slots__ = ("_outer", "_path", "_writer")

    def __init__(self, writer: CodeWriter, path: Path | None) -> None:
        self._writer = writer
        self._path = path

    def __enter__(self) -> None:
        self._outer = self._writer.path
        self._writer.path = self._path

    def __exit__(self, *_: object) -> None:
        self._writer.path = self._outer


# Sums and products as code, with the spacing of formatters and signs in their usual place.
#
# All targets that write ``a - 2 * b`` share these functions, so that terms have the same order and
# floating-point sums round the same way.


TRANSCENDENTAL: Final = (
    *(vocabulary.Sqrt, vocabulary.Exp, vocabulary.Log, vocabulary.Log2),
    *(vocabulary.Sin, vocabulary.Cos, vocabulary.Tanh),
)
"""Functions of one real number, which every target calls by their names in lower case."""


ORDER: Final[Mapping[type[sympy.Basic], Form]] = {
    sympy.Lt: infix("<", Level.COMPARE),
    sympy.Le: infix("<=", Level.COMPARE),
    sympy.Gt: infix(">", Level.COMPARE),
    sympy.Ge: infix(">=", Level.COMPARE),
}
"""Comparisons that every target writes alike."""


def spaced_sum(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """Print ``a - 2 * b + 1``."""
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
    """Print ``-(2 * a * b)``: with spaces around ``*``, a bare sign would bind tighter."""
    negative, magnitude = split_sign(expr)
    if negative:
        return Piece(f"-{printer.print(magnitude, Level.ATOM)}", Level.UNARY)
    first, *rest = ordered_args(expr)
    head = printer.print(first, Level.PRODUCT)
    tail = (printer.print(factor, Level.PRODUCT + 1) for factor in rest)
    return Piece(" * ".join((head, *tail)), Level.PRODUCT)


def split_sign(term: sympy.Basic) -> tuple[bool, sympy.Basic]:
    """Return whether a term is a negative number times something, and its magnitude."""
    if isinstance(term, (sympy.Integer, sympy.Float)):
        return bool(term < 0), abs(term)
    if not isinstance(term, sympy.Mul):
        return False, term
    number, *rest = ordered_args(term)
    if not (isinstance(number, (sympy.Integer, sympy.Float)) and number < 0):
        return False, term
    factors = rest if number == -1 else (-number, *rest)
    # An evaluated product would be multiplied out again.
    return True, factors[0] if len(factors) == 1 else sympy.Mul(*factors, evaluate=False)


# Escaping of text from outside.

PLAIN: Final = frozenset(map(chr, range(32, 127))) - {'"', "\\"}
"""Printable ASCII that needs no escape in strings and comments of any target."""

_IN_PROSE: Final = {'"': "'", "\\": "/"}


def prose(text: str) -> str:
    """Return text in printable ASCII without double quotes or backslashes, for comments."""
    return "".join(char if char in PLAIN else _IN_PROSE.get(char, "?") for char in text)


# The header of an emitted text: the program's inputs, constants and results.


def header_title(program: Program, prose: Callable[[str], str]) -> str:
    """Return the first line; ``prose`` escapes text from outside for the target."""
    return f"Wrapper program {prose(program.name)}, {program.role.value}."


def header_lines(
    program: Program, prose: Callable[[str], str], indent: str, given: Sequence[Input] | None = None
) -> Iterator[str]:
    """Yield the lists below the title, each after an empty line.

    Args:
        program: The program.
        prose: Escapes text from outside for the target's comments.
        indent: What a row begins with.
        given: What a call is given, if not the inputs alone: the program's objects are among them.
    """
    inputs = [(input_name(i), _input_type(program, i, prose)) for i in given or program.inputs]
    constants = [
        (name, f"{_type(program.layout(name), prose)}  {prose(constant.qualified_name)}".rstrip())
        for name, constant in program.constants.items()
    ]
    objects = [
        (name, f"{prose(item.class_name)}  {prose(item.qualified_name)}".rstrip())
        for name, item in (program.objects.items() if given is None else ())
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
    """Return ``float32[4, 64]``, with strides and device unless they are the usual ones."""
    text = f"{layout.dtype.torch_name}[{', '.join(map(str, layout.size))}]"
    if not layout.is_contiguous:
        text += f" strides [{', '.join(map(str, layout.stride))}]"
    if layout.device != CPU:
        text += f" on {prose(str(layout.device))}"
    return text
