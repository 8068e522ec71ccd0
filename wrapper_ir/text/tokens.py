"""The tokenizer: texts are split into lines, and lines into tokens.

One regular expression splits a line into plain strings. The first character of a token tells its
kind. Columns are computed only for errors, so valid texts do not pay for them.
"""

from __future__ import annotations

import re
from sys import intern
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from wrapper_ir.errors import nearest
from wrapper_ir.lines.schema import CLASS_NAME, QUALIFIED_OP_NAME
from wrapper_ir.text import errors
from wrapper_ir.text.words import IDENTIFIER, EscapeError, unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_TOKEN: Final = re.compile(
    r"%[A-Za-z_]\w*"  # a buffer
    r"|[A-Za-z_]\w*(?:::[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)?"  # a word; an op
    r"|0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"  # a number
    r"|@[A-Za-z_]\w*(?::\d+)?"  # a kernel, a device
    r'|"(?:[^"\\]|\\.)*"'  # a string
    r"|\$[A-Za-z_]\w*|#\d+"  # a symbol, an origin
    r"|&[A-Za-z_]\w*"  # an object
    r"|\*\*|//|==|!=|<=|>=|&&|\|\|"
    r"|;.*"  # a remark
    r"|\S",
    re.ASCII,
)

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

T = TypeVar("T")


class Cursor:
    """A position in the tokens of one line.

    ``tokens`` ends with empty strings, so that a look ahead needs no bounds check.
    """

    __slots__ = ("at", "number", "origin", "source", "text", "tokens")

    def __init__(self, text: str, number: int, source: str) -> None:
        self.text: str = text
        self.number: int = number
        self.source: str = source
        self.tokens: list[str] = _TOKEN.findall(text)
        if ";" in text and self.tokens and self.tokens[-1][0] == ";":
            self.tokens.pop()
        self.tokens += ("", "")
        self.at: int = 0
        self.origin: int | None = None

    @property
    def next(self) -> str:
        """The next token; empty at the end of the line."""
        return self.tokens[self.at]

    def take(self) -> str:
        """Read a token."""
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Read ``token`` if it comes next."""
        if self.tokens[self.at] != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        """Read ``token``, which must come next."""
        if self.tokens[self.at] != token:
            self.fail_expecting(f"'{token}'")
        self.at += 1

    def end(self) -> None:
        """Fail unless the line ends here."""
        if self.tokens[self.at]:
            self.fail_expecting("the end of the line")

    def take_origin(self, note: Callable[[int], int]) -> None:
        """Remove ``loc(#3)`` from the end of the line, so that other code need not handle it."""
        tokens = self.tokens
        if len(tokens) < 6 or tokens[-3] != ")" or tokens[-4][0] != "#":
            return
        if tokens[-6] == "loc" and tokens[-5] == "(" and 1 < len(tokens[-4]) < 10:
            self.origin = note(int(tokens[-4][1:]))
            del tokens[-6:-2]

    def rest(self) -> tuple[str, int]:
        """Read the rest of the line verbatim, and return its column too."""
        last = len(self.tokens) - 3
        if self.at > last:
            self.fail_expecting("more text")
        spans = [match.span() for match in _TOKEN.finditer(self.text)]
        start = spans[self.at][0]
        self.at = last + 1
        return self.text[start : spans[last][1]], start + 1

    def buffer(self) -> str:
        """Read the name of a buffer, and return it without its sigil."""
        token = self.tokens[self.at]
        if token[:1] != "%" or len(token) == 1:
            self.fail_expecting("a buffer such as %x")
        self.at += 1
        return intern(token[1:])

    def object(self) -> str:
        """Read the name of an object, and return it without its sigil."""
        return self._matching(IDENTIFIER, "an object such as &queue", sign="&")

    def class_name(self) -> str:
        """Read the name of a custom class, ``namespace::Class``."""
        return self._matching(CLASS_NAME, "a class such as namespace::Class")

    def op(self, what: str) -> str:
        """Read the name of a library op, ``namespace::op`` or ``namespace::op.Overload``."""
        return self._matching(QUALIFIED_OP_NAME, what)

    def identifier(self, what: str) -> str:
        """Read a bare name."""
        return self._matching(IDENTIFIER, what)

    def kernel(self) -> str:
        """Read the name of a kernel or program, and return it without its sigil."""
        return self._matching(IDENTIFIER, "a name such as @name", sign="@")

    def symbol(self) -> str:
        """Read the name of a symbol, and return it without a dollar sign."""
        sign = "$" if self.next[:1] == "$" else ""
        return self._matching(IDENTIFIER, "a symbol such as s0", sign)

    def _matching(self, pattern: re.Pattern[str], what: str, sign: str = "") -> str:
        """Read a sigil and a name that matches a pattern, and return the name."""
        token = self.tokens[self.at]
        if not token.startswith(sign) or not pattern.fullmatch(token, len(sign)):
            self.fail_expecting(what)
        self.at += 1
        return intern(token[len(sign) :])

    def string(self, what: str) -> str:
        """Read a string literal and return its value."""
        token = self.tokens[self.at]
        if token[:1] != '"' or len(token) == 1:
            self.fail_expecting(what)
        self.at += 1
        try:
            return unescape(token[1:-1])
        except EscapeError as error:
            column = self.column(self.at - 1) + 1 + error.position
            raise errors.StringTextError(reason=str(error), place=self.place(column)) from None

    def word(self, table: Mapping[str, T], what: str) -> T:
        """Read a key of a table and return its value."""
        token = self.tokens[self.at]
        found = table.get(token)
        if found is None:
            self.fail_word(table, what)
        self.at += 1
        return found

    def fail_word(self, words: Iterable[str], what: str) -> NoReturn:
        """Fail at the next token, which is none of ``words``."""
        self._refuse_foreign(what)
        token = self.tokens[self.at]
        if not IDENTIFIER.fullmatch(token):
            self.fail_expecting(what)
        close = nearest(token, words)
        hint = f"did you mean '{close}'?" if close else f"valid are {', '.join(sorted(words))}"
        self.fail(f"'{token}' is not {what}", errors.WordTextError, hint=hint)

    def fail_expecting(self, what: str) -> NoReturn:
        """Fail at the next token, with what was expected instead."""
        self._refuse_foreign(what)
        token = self.tokens[self.at]
        if token == '"':
            self.fail("this string is not closed on this line", errors.StringTextError)
        shown = token if len(token) <= 40 else token[:37] + "..."
        found = f"found '{shown}'" if token else "the line ends here"
        self.fail(f"expected {what}, but {found}")

    def _refuse_foreign(self, what: str) -> None:
        """Fail at the first non-ASCII token, which is the likely cause of any problem."""
        if self.text.isascii():
            return
        for index, token in enumerate(self.tokens):
            if not token.isascii() and token[0] != '"':
                reason = f"expected {what}, but '{token}' (U+{ord(token):04X}) is not ASCII"
                hint = "names are ASCII; other characters are allowed in strings and comments"
                self.fail(reason, errors.CharacterTextError, at=index, hint=hint)

    def fail(
        self,
        reason: str,
        kind: type[errors.TextError] = errors.SyntaxTextError,
        *,
        at: int | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        """Raise an error at a token, by default the next one."""
        column = self.column(self.at if at is None else at)
        raise kind(reason=reason, place=self.place(column), hint=hint)

    def place(self, column: int) -> errors.Place:
        """Return a place on this line."""
        return errors.Place(self.source, self.number, column, self.text)

    def column(self, index: int) -> int:
        """Return the column of a token, from 1; after the last token, the end of the line."""
        end = 0
        for position, match in enumerate(_TOKEN.finditer(self.text)):
            if match[0].startswith(";") or position == index:
                return (match.start() if position == index else end) + 1
            end = match.end()
        return end + 1


def bracketed(cursor: Cursor, brackets: str, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    """Read a comma-separated list in a pair of brackets, item by item with ``read``."""
    cursor.expect(brackets[0])
    return tuple([read(cursor) for _ in listed(cursor, brackets[1])])


def listed(cursor: Cursor, closing: str) -> Iterator[None]:
    """Yield once per item of a list. Reads the commas and the closing bracket."""
    if cursor.accept(closing):
        return
    yield
    while not cursor.accept(closing):
        if not cursor.accept(","):
            cursor.fail_expecting(f"',' or '{closing}'")
        yield


class TextLines:
    """The lines of a text, read from first to last."""

    def __init__(self, text: str, source: str) -> None:
        #: The lines. Those of an older version are replaced once the version is known.
        self.lines: list[str] = text.split("\n")
        #: The first reference to each origin, by index.
        self.used_origins: dict[int, errors.Place] = {}
        self._source = errors.visible(source)
        self._at = 0
        self._check_characters(text)

    def back(self) -> None:
        """Step back to the last line read."""
        self._at -= 1

    def cursor(self, wanted: str) -> Cursor:
        """Return the next line that is neither empty nor a remark."""
        cursor = self.next()
        if cursor is None:
            raise errors.SyntaxTextError(
                reason=f"{wanted} is missing at the end", place=self.place()
            )
        return cursor

    def next(self) -> Cursor | None:
        """Return the next line that is neither empty nor a remark, if there is one."""
        lines = self.lines
        while self._at < len(lines):
            text = lines[self._at]
            self._at += 1
            if text and not text.isspace():
                cursor = Cursor(text, self._at, self._source)
                if cursor.tokens[0]:
                    return cursor
        return None

    def is_next(self, *tokens: str) -> bool:
        """Return whether the next line that is not empty or a remark starts with ``tokens``."""
        at = self._at
        cursor = self.next()
        self._at = at
        return cursor is not None and tuple(cursor.tokens[: len(tokens)]) == tokens

    def source_line(self) -> str | None:
        """Return the next line, without indentation, if it is source code of a kernel."""
        if self._at < len(self.lines):
            text = self.lines[self._at].lstrip(" \t")
            if text[:1] == "|":
                self._at += 1
                return text
        return None

    def place(self, stripped: str | None = None, position: int = 0) -> errors.Place:
        """Return the end of the last line read, or a position in its ``stripped`` text."""
        number = min(self._at, len(self.lines)) or 1
        text = self.lines[number - 1]
        indent = 0 if stripped is None else len(text) - len(stripped)
        column = len(text) + 1 if stripped is None else indent + position + 1
        return errors.Place(self._source, number, column, text)

    def origin(self, index: int) -> int:
        """Record that the current line refers to an origin."""
        if index not in self.used_origins:
            self.used_origins[index] = self.place()
        return index

    def _check_characters(self, text: str) -> None:
        """Refuse non-printing characters, so that texts mean what they show."""
        if "\r" in text:
            self.lines = [line.removesuffix("\r") for line in self.lines]
            text = "\n".join(self.lines)
        if text.isascii() and not _CONTROL.search(text):
            return
        for number, line in enumerate(self.lines, start=1):
            plain = line.replace("\t", " ")
            if plain.isprintable():
                continue
            column = next(i for i, char in enumerate(plain, start=1) if not char.isprintable())
            code = f"{ord(plain[column - 1]):x}"
            reason = f"the character U+{code.upper():0>4} is not printable"
            hint = f"in a string or comment write \\u{{{code}}}"
            place = errors.Place(self._source, number, column, line)
            raise errors.CharacterTextError(reason=reason, place=place, hint=hint)
