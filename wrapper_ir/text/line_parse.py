"""Parser of the lines of a body.

The first words of a line, or those after ``=``, determine its class. The class declares the rest.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import wrapper_ir.lines as ir
from wrapper_ir.lines.syntax import SYNTAX, Group, Slot
from wrapper_ir.lines.traits import NAMED_FIELDS
from wrapper_ir.text.assembly import READERS, Reader, form_of, left_side, opening_words
from wrapper_ir.text.errors import NestingTextError, SchemaTextError, StringTextError, WordTextError
from wrapper_ir.text.tokens import Cursor, TextLines, listed
from wrapper_ir.text.words import (
    MAX_DEPTH,
    EscapeError,
    is_plain_schema,
    read_source_line,
    unescape,
)

if TYPE_CHECKING:
    from wrapper_ir.text.item_parse import ItemParser, Target

_COMMENT: Final = re.compile(r"[ \t]*//(?:loc\(\#(\d{1,9})\))?(?: (.*)|)", re.ASCII)


class _Openings(NamedTuple):
    """Readers of lines, by the keyword that identifies the class."""

    statements: dict[str, Reader]
    buffers: dict[str, Reader]
    """After ``%name =``."""
    symbols: dict[str, Reader]
    """After ``name =``."""
    calls: dict[str, Reader]
    """After any number of results."""
    op: Reader
    """The reader of a line that starts with the name of a library op."""
    classes: dict[str, type]
    """The classes of lines, by keyword."""

    def form(self, word: str) -> str:
        """Return how a line with a keyword is written; nothing if no line has it."""
        if word in _LIBRARY_OPS:
            return f"{word} schema"
        cls = self.classes.get(word)
        return "" if cls is None else form_of(cls, word)


@cache
def _openings() -> _Openings:
    tables: dict[str, dict[str, Reader]] = {"": {}, "buffers": {}, "symbols": {}, "calls": {}}
    op: Reader | None = None
    classes: dict[str, type] = {}
    for cls in get_args(ir.AnyLine):
        if _is_comment(cls):
            continue
        read = READERS[cls]
        words = opening_words(cls)
        if not words:
            op = read
        tables[_defined(cls)].update(dict.fromkeys(words, read))
        classes.update(dict.fromkeys(words, cls))
    assert op is not None
    return _Openings(tables[""], tables["buffers"], tables["symbols"], tables["calls"], op, classes)


def _is_comment(cls: type) -> bool:
    """Return whether a class takes the rest of its line verbatim."""
    groups = [part.parts for part in SYNTAX[cls] if isinstance(part, Group)]
    return any(isinstance(p, Slot) and p.form == "rest" for parts in groups for p in parts)


def _defined(cls: type) -> str:
    """Return the kind of names before ``=``."""
    left = left_side(cls)
    if left is None or left.form:
        return "calls" if left else ""
    name = left.fields[0]
    roles = [role for field in NAMED_FIELDS[cls] if field.name == name for role in field.roles]
    return "symbols" if ir.Role.DEFINE_SYMBOL in roles else "buffers"


class LineParser:
    """Parser of the lines of a body, with their source code and regions."""

    items: ItemParser

    def __init__(self, items: ItemParser, text: TextLines) -> None:
        self.items = items
        items.lines = self
        self.text = text
        self._depth = 0
        self._openings = _openings()

    def body(self, last_word: str) -> tuple[tuple[ir.AnyLine, ...], Cursor]:
        """Read lines up to the one that starts with ``last_word``, and return its cursor too."""
        found: list[ir.AnyLine] = []
        while True:
            cursor = self.text.cursor(f"'{last_word}'")
            tokens = cursor.tokens
            if tokens[0] == last_word and tokens[1] != "=":
                cursor.at = 1
                return tuple(found), cursor
            is_comment = tokens[0] == "//"
            found.append(self.comment(cursor) if is_comment else self.line(cursor, last_word))

    def comment(self, cursor: Cursor) -> ir.Comment:
        """Read ``// text``."""
        found = _COMMENT.fullmatch(cursor.text)
        if found is None:
            cursor.fail("expected a space after '//'")
        origin = None if found[1] is None else self.text.origin(int(found[1]))
        try:
            return ir.Comment(unescape(found[2] or ""), origin=origin)
        except EscapeError as error:
            place = cursor.place(found.start(2) + error.position + 1)
            raise StringTextError(reason=str(error), place=place) from None

    def line(self, cursor: Cursor, last_word: str) -> ir.AnyLine:
        """Read any line except a comment, of a body that ends with ``last_word``."""
        cursor.take_origin(self.text.origin)
        tokens = cursor.tokens
        first = tokens[0]
        known = self._openings
        line: ir.AnyLine
        if first == "(" or tokens[1] == "=":
            line = self._definition(cursor)
        elif (read := known.statements.get(first)) is not None:
            line = read(self.items, cursor, None)
        elif first in known.calls or _is_op(first):
            line = self._called(cursor, [])
        elif first in _LIBRARY_OPS:
            cursor.at = 1
            line = self._declared(cursor, is_method=_LIBRARY_OPS[first])
        elif first[0] == "|":
            cursor.fail("lines of source must follow a 'kernel' line")
        elif first in _ENDS:
            what = f"a {_ENDS[last_word]} ends with '{last_word}', not with '{first}'"
            cursor.fail(what, WordTextError)
        else:
            self._refuse_place(cursor, "follows the name that it defines")
            cursor.fail_word((*known.classes, *_LIBRARY_OPS, last_word), "the start of a line")
        cursor.end()
        return line

    def _definition(self, cursor: Cursor) -> ir.AnyLine:
        known = self._openings
        targets = self._targets(cursor)
        cursor.expect("=")
        word = cursor.next
        if (read := known.buffers.get(word)) is not None:
            return self._one(cursor, targets, "buffer", read)
        if (read := known.symbols.get(word)) is not None:
            return self._one(cursor, targets, "symbol", read)
        return self._called(cursor, targets)

    def _one(self, cursor: Cursor, targets: list[Target], kind: str, read: Reader) -> ir.AnyLine:
        """Read a line that defines one name."""
        name, found = targets[0]
        if len(targets) > 1 or found != kind:
            self._refuse_place(cursor, f"defines one {kind}", at=0)
        line: ir.AnyLine = read(self.items, cursor, name)
        return line

    def _targets(self, cursor: Cursor) -> list[Target]:
        if not cursor.accept("("):
            return [self._target(cursor)]
        found = [self._target(cursor) for _ in listed(cursor, ")")]
        if not found:
            cursor.fail("empty parentheses define nothing", at=0)
        return found

    def _target(self, cursor: Cursor) -> Target:
        if cursor.next[:1] == "%":
            return cursor.buffer(), "buffer"
        if cursor.next[:1] == "&":
            return cursor.object(), "object"
        return cursor.symbol(), "symbol"

    def _refuse_place(self, cursor: Cursor, reason: str, *, at: int | None = None) -> None:
        """Fail if the next token is the keyword of a line that is written in another way."""
        if form := self._openings.form(cursor.next):
            cursor.fail(f"'{cursor.next}' {reason}", at=at, hint=f"write '{form}'")

    def _called(self, cursor: Cursor, targets: list[Target]) -> ir.AnyLine:
        """Read a line that has results."""
        word, known = cursor.next, self._openings
        read = known.calls.get(word)
        if read is None:
            if not _is_op(word):
                self._refuse_place(cursor, "defines nothing")
                words = (*known.buffers, *known.symbols, *known.calls)
                cursor.fail_word(words, "an operator such as aten::relu, or what defines a value")
            read = known.op
        line: ir.AnyLine = read(self.items, cursor, targets)
        return line

    def _declared(self, cursor: Cursor, *, is_method: bool) -> ir.KernelDefinition:
        schema, column = cursor.rest()
        if not is_plain_schema(schema):
            reason = "a schema must be one line of printable text without tabs"
            raise SchemaTextError(reason=reason, place=cursor.place(column))
        try:
            name = ir.parse_schema(schema).name
        except ir.SchemaError as error:
            place = cursor.place(column + int(str(error.fields["column"])) - 1)
            raise SchemaTextError(reason=error.message, place=place) from None
        return ir.KernelDefinition(name, (), ir.TorchOp(schema, is_method), origin=cursor.origin)

    def code(self, cursor: Cursor) -> str:
        """Read the lines of source after a kernel's first line, which ends here."""
        cursor.end()
        lines: list[str] = []
        while (text := self.text.source_line()) is not None:
            try:
                lines.append(read_source_line(text))
            except EscapeError as error:
                place = self.text.place(text, error.position)
                raise StringTextError(reason=str(error), place=place) from None
        if not lines:
            cursor.fail("the kernel has no source", hint="lines of source start with '|'")
        return "\n".join(lines)

    def regions(self, block: str, *, many: bool) -> ir.Region | tuple[ir.Region, ...]:
        """Read a region of a line, or with ``many`` all its numbered regions."""
        if not many:
            return self._region(block)
        found = [self._region(f"{block}0")]
        while self.text.is_next(f"{block}{len(found)}", "("):
            found.append(self._region(f"{block}{len(found)}"))
        return tuple(found)

    def _region(self, name: str) -> ir.Region:
        """Read a region from ``name (params) {`` to ``}``."""
        cursor = self.text.cursor(f"the region '{name} (...) {{'")
        cursor.expect(name)
        if self._depth >= MAX_DEPTH:
            cursor.fail(f"regions are nested deeper than {MAX_DEPTH}", NestingTextError)
        params = self.items.inputs(cursor)
        cursor.expect("{")
        cursor.end()
        self._depth += 1
        body, last = self.body("yield")
        self._depth -= 1
        results = self.items.values(last)
        last.end()
        closing = self.text.cursor("'}'")
        closing.expect("}")
        closing.end()
        return ir.Region(params, body, results)


def _is_op(token: str) -> bool:
    return "::" in token and token[0] != '"'


#: What ends with a keyword.
_ENDS: Final = {"return": "program", "yield": "region"}

#: Keywords that declare library ops by schema, and whether the op is a method.
_LIBRARY_OPS: Final = {"extern": False, "method": True}
