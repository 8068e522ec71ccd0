"""Parser of whole texts.

The text is read once, line by line. The first words of a line determine what it is. Errors are
reported with line numbers.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import wrapper_ir.lines as ir
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.text import errors
from wrapper_ir.text.assembly import READERS
from wrapper_ir.text.expressions import ExprParser
from wrapper_ir.text.item_parse import ItemParser
from wrapper_ir.text.line_parse import LineParser
from wrapper_ir.text.tokens import Cursor, TextLines
from wrapper_ir.text.words import ROLES, STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


# Upgrades of older texts.
#
# Each older version has one step in :data:`UPGRADES`, and no other code knows about it: the parser
# reads the current version only. Steps rewrite single lines and keep their numbers, so errors in an
# old file are reported at the right place. Kernel sources and remarks are left alone.

_HEAD: Final = re.compile(r"([ \t]*wir[ \t]+)(\d{1,9})([ \t\r]*(?:;.*)?)", re.DOTALL)

#: Starts of lines that no upgrade touches: remarks, comments, kernel sources.
_ASIDE: Final = (";", "//", "|")

#: The word between a program and the one that computes its folded constants.
_FOLDING: Final = "folding"

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_EMPTY_CAPTURES: Final = re.compile(rf'((?:{_STRING}|[^";])*?)\bwith[ \t]*\([ \t]*\)')


def _from_1(line: str) -> str:
    """Remove an empty ``with ()`` from lines with regions, which version 2 leaves out."""
    found = _EMPTY_CAPTURES.match(line) if "with" in line else None
    return line if found is None else found[1].rstrip(" \t") + line[found.end() :]


UPGRADES: Final[Mapping[int, Callable[[str], str]]] = {1: _from_1}
"""Functions that upgrade one line to the next version, by version."""


def upgrade(text: str) -> str:
    """Upgrade a text to the current version, keeping remarks, indentation and empty lines.

    A text without a version or with a newer one is returned unchanged. Parsing reports the problem.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith(";"):
            head = _HEAD.fullmatch(line)
            if head is None or not 0 < int(head[2]) < ir.SCHEMA_VERSION:
                return text
            lines[number] = f"{head[1]}{ir.SCHEMA_VERSION}{head[3]}"
            lines[number + 1 :] = upgraded_lines(lines[number + 1 :], int(head[2]))
            break
    return "\n".join(lines)


def upgraded_lines(lines: list[str], version: int) -> list[str]:
    """Upgrade lines of an older version, one by one."""
    for number in range(version, ir.SCHEMA_VERSION):
        step = UPGRADES[number]
        lines = [line if _is_aside(line) else step(line) for line in lines]
    return lines


def _is_aside(line: str) -> bool:
    stripped = line.lstrip()
    return not stripped or stripped.startswith(_ASIDE)


def parse(text: str, *, source_name: str = "<text>") -> ir.Program:
    """Parse a program. A text of an older version is upgraded first.

    Args:
        text: The text, printed by :func:`print_program` or written by hand.
        source_name: The file name for messages.

    Raises:
        TextError: The text is not a program. The error has the line and column.
    """
    return parse_file(text, source_name=source_name)[0]


def parse_file(text: str, *, source_name: str) -> tuple[ir.Program, str]:
    """Parse a program as :func:`parse` does. Also return the hash of its values, or nothing."""
    given: object = text
    if not isinstance(given, str):
        hint = "pass the text itself, or read a file with wir.load(path)"
        raise UnsupportedError(what=f"a {type(given).__name__}", where="wir.parse", hint=hint)
    lines = TextLines(text, source_name)
    try:
        reader = _Reader(lines)
        return reader.whole(), reader.values
    except RecursionError:
        raise errors.NestingTextError(
            reason="this is nested too deeply", place=lines.place()
        ) from None


class _Reader:
    """Parser of one text."""

    def __init__(self, text: TextLines) -> None:
        self._text = text
        self._exprs = ExprParser()
        self._items = ItemParser(self._exprs)
        self._parser = LineParser(self._items, self._text)
        self._facts: dict[str, Any] = {}
        self.values = ""
        self._symbols: dict[str, ir.SymbolInfo] = {}
        self._inputs: list[ir.Input] = []
        self._constants: dict[str, ir.Constant] = {}
        self._objects: dict[str, ir.ObjectConstant] = {}
        self._streams: list[ir.Stream] = []
        self._events: list[ir.Event] = []
        self._mempools: list[ir.MemoryPool] = []
        self._declarations: dict[str, Callable[[Cursor], None]] = {
            **dict.fromkeys(("in_spec", "out_spec", "values", "tangents", "unread"), self._fact),
            "symbol": self._symbol,
            "input": self._input,
            "constant": self._constant,
            "object": self._object,
            "stream": partial(self._numbered, ir.Stream, self._streams),
            "event": partial(self._numbered, ir.Event, self._events),
            "mempool": partial(self._numbered, ir.MemoryPool, self._mempools),
            "buffer": self._buffer,
        }

    def whole(self) -> ir.Program:
        """Read the whole text."""
        self._version()
        return self.program()

    def program(self) -> ir.Program:
        """Read a program, to the end of the text."""
        cursor = self._text.cursor("'program @name'")
        cursor.expect("program")
        name = cursor.kernel()
        role = cursor.word(ROLES, "a role")
        stage = cursor.word(STAGES, "a stage")
        cursor.end()
        while (cursor := self._text.cursor("'return'")).next in self._declarations:
            if cursor.tokens[1] == "=":
                break
            declare = self._declarations[cursor.take()]
            declare(cursor)
            cursor.end()
        self._text.back()
        self.values = self._facts.pop("values", "")
        body, results = self._main()
        origins = self._origins()
        return ir.Program(
            name=name,
            inputs=tuple(self._inputs),
            results=results,
            body=body,
            buffers=ir.FrozenMap(self._items.buffers),
            symbols=ir.FrozenMap(self._symbols),
            constants=ir.FrozenMap(self._constants),
            objects=ir.FrozenMap(self._objects),
            streams=tuple(self._streams),
            events=tuple(self._events),
            mempools=tuple(self._mempools),
            role=role,
            stage=stage,
            folding=self._folding(),
            origins=origins,
            **self._facts,
        )

    def _main(self) -> tuple[tuple[ir.AnyLine, ...], tuple[ir.Value, ...]]:
        body, last = self._parser.body("return")
        results = self._items.values(last)
        last.end()
        return body, results

    def _version(self) -> None:
        cursor = self._text.cursor(f"the first line 'wir {ir.SCHEMA_VERSION}'")
        if cursor.next != "wir":
            reason = f"a text must start with its version, 'wir {ir.SCHEMA_VERSION}'"
            cursor.fail(reason, errors.VersionTextError)
        cursor.take()
        at = cursor.at
        version = self._items.integer(cursor, "a version")
        cursor.end()
        if version > ir.SCHEMA_VERSION:
            newest = f"this wrapper_ir reads up to version {ir.SCHEMA_VERSION}"
            reason = f"the text has version {_short(version)}, but {newest}"
            hint = "read it with the wrapper_ir that wrote it, or a newer one"
            cursor.fail(reason, errors.VersionTextError, at=at, hint=hint)
        if version < 1:
            cursor.fail(f"there is no version {_short(version)}", errors.VersionTextError, at=at)
        if version < ir.SCHEMA_VERSION:
            self._text.lines = upgraded_lines(self._text.lines, version)

    def _fact(self, cursor: Cursor) -> None:
        """Read a declaration that is given at most once."""
        word = cursor.tokens[0]
        if word in self._facts:
            cursor.fail(f"'{word}' is given twice", errors.ConflictTextError, at=0)
        if word == "tangents":
            self._facts[word] = self._items.integers(cursor, "the number of a result")
        elif word == "unread":
            self._facts[word] = self._items.strings(cursor, "a tensor's name in the model")
        else:
            self._facts[word] = cursor.string("a string")

    def _symbol(self, cursor: Cursor) -> None:
        name = cursor.symbol()
        if name in self._symbols:
            cursor.fail(f"the symbol '{name}' is declared twice", errors.ConflictTextError, at=1)
        info = self._symbols[name] = self._read(ir.SymbolInfo, cursor)
        if not self._exprs.declare(name, is_real=info.kind is ir.SymbolKind.FLOAT):
            reason = f"the symbol '{name}' was used as an integer above"
            cursor.fail(
                reason, errors.ConflictTextError, at=1, hint="declare it before its first use"
            )

    def _read(self, cls: type[T], cursor: Cursor) -> T:
        """Read the part of a declaration after its name."""
        found: T = READERS[cls](self._items, cursor, None)
        return found

    def _input(self, cursor: Cursor) -> None:
        self._inputs.append(self._items.input(cursor))

    def _constant(self, cursor: Cursor) -> None:
        name = cursor.buffer()
        if name in self._constants:
            cursor.fail(f"the constant '%{name}' is declared twice", errors.ConflictTextError, at=1)
        cursor.expect(":")
        self._items.define(cursor, name)
        self._constants[name] = self._read(ir.Constant, cursor)

    def _object(self, cursor: Cursor) -> None:
        name = cursor.object()
        if name in self._objects:
            cursor.fail(f"the object '&{name}' is declared twice", errors.ConflictTextError, at=1)
        self._objects[name] = self._read(ir.ObjectConstant, cursor)

    def _numbered(self, cls: type[T], known: list[T], cursor: Cursor) -> None:
        """Read a declaration with a number, which counts from 1."""
        word, number = cursor.tokens[0], self._items.integer(cursor, "a number")
        if number != len(known) + 1:
            reason = f"{word} {_short(number)} is declared where {word} {len(known) + 1} is next"
            cursor.fail(reason, errors.ConflictTextError, at=1)
        known.append(self._read(cls, cursor))

    def _buffer(self, cursor: Cursor) -> None:
        name = cursor.buffer()
        cursor.expect(":")
        self._items.define(cursor, name)

    def _origins(self) -> tuple[ir.Origin, ...]:
        """Read the table of origins, which ends the program."""
        found: list[ir.Origin] = []
        while (cursor := self._text.next()) is not None:
            if cursor.next == _FOLDING:
                self._text.back()
                break
            if cursor.next != f"#{len(found)}":
                wanted = f"'#{len(found)} = loc ...' or the end of the text"
                cursor.fail_expecting(wanted)
            cursor.take()
            cursor.expect("=")
            cursor.expect("loc")
            found.append(self._read(ir.Origin, cursor))
            cursor.end()
        for index, place in self._text.used_origins.items():
            if index >= len(found):
                raise errors.OriginTextError(reason=f"the text has no origin #{index}", place=place)
        self._text.used_origins.clear()
        return tuple(found)

    def _folding(self) -> ir.Program | None:
        """Read the program that computes folded constants, if one follows."""
        cursor = self._text.next()
        if cursor is None:
            return None
        cursor.expect(_FOLDING)
        cursor.end()
        return _Reader(self._text).program()


def _short(number: int) -> str:
    text = hex(number)
    return str(number) if len(text) < 20 else f"{text[:12]}..."
