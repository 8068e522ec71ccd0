"""Errors of texts, of programs to be printed, and of files of constants."""

from __future__ import annotations

from typing import NamedTuple

from wrapper_ir.errors import WrapperIRError

#: Columns of the offending line that a message shows at most.
_WINDOW = 96


class Place(NamedTuple):
    """A place in a text: the file's name, line and column from 1, and the line's text."""

    source: str = "<text>"
    line: int = 1
    column: int = 1
    text: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


class TextError(WrapperIRError):
    """Base of all errors of reading text; shows the place, the line and a caret under the column.

    Args:
        reason: What is wrong, in words.
        place: Where.
        hint: As in the base class.
        path: Unused here: a place in a text is said by line and column.
        origin: As in the base class.
        excerpt: The line with its caret; made from ``place`` when absent.
    """

    code = "WIR0200"
    template = "{place}: {reason}{excerpt}"

    def __init__(
        self,
        *,
        reason: str,
        place: Place,
        hint: str | None = None,
        path: object | None = None,
        origin: object | None = None,
        excerpt: str | None = None,
    ) -> None:
        self.place = place
        super().__init__(
            reason=reason,
            place=place,
            excerpt=_excerpt(place.text, place.column) if excerpt is None else excerpt,
            hint=hint,
            path=path,
            origin=origin,
        )

    @property
    def line(self) -> int:
        """Number of the offending line, from 1."""
        return self.place.line

    @property
    def column(self) -> int:
        """Number of the offending character in its line, from 1."""
        return self.place.column


class SyntaxTextError(TextError):
    """Something else was expected here."""

    code = "WIR0201"


class VersionTextError(TextError):
    """The text is of a version that this wrapper_ir does not know, or does not say its version."""

    code = "WIR0202"


class CharacterTextError(TextError):
    """A character that a text may not hold, or not here."""

    code = "WIR0203"


class StringTextError(TextError):
    """A string literal is not closed or holds an escape that does not exist."""

    code = "WIR0204"


class NumberTextError(TextError):
    """A number is malformed, or too large to be one."""

    code = "WIR0205"


class WordTextError(TextError):
    """A word that means nothing here: an unknown mnemonic, dtype, role or flag."""

    code = "WIR0206"


class NestingTextError(TextError):
    """Brackets or regions are nested deeper than a program needs."""

    code = "WIR0207"


class ExprTextError(TextError):
    """An expression that is well-formed text but no expression of ours."""

    code = "WIR0208"


class ConflictTextError(TextError):
    """One name is declared twice, in two different ways."""

    code = "WIR0209"


class OriginTextError(TextError):
    """A line refers to an origin that the text does not have."""

    code = "WIR0210"


class SchemaTextError(TextError):
    """The schema after ``extern`` cannot be read."""

    code = "WIR0211"


class UnprintableError(WrapperIRError):
    """A program holds something that the text form has no way to say.

    Printing it anyway would make text that reads back as another program, or as none.
    """

    code = "WIR0220"
    template = "cannot print {what}: {reason}"


class FileError(WrapperIRError):
    """A file of a program cannot be read or written."""

    code = "WIR0230"
    template = "cannot {action} '{file}': {reason}"


class ConstantsError(WrapperIRError):
    """The values of constants do not fit the program, or are not there."""

    code = "WIR0231"
    template = "constants of '{file}': {reason}"


def visible(text: str) -> str:
    """Return the text with every character that does not print shown as an escape."""
    return "".join(c if c.isprintable() or c == "\t" else f"\\u{{{ord(c):x}}}" for c in text)


def _excerpt(text: str, column: int) -> str:
    """Return the line with a caret under the column, cut to a window where it is long."""
    if not text:
        return ""
    at = max(0, min(column - 1, len(text)))
    start = 0 if len(text) <= _WINDOW else max(0, min(at - _WINDOW // 2, len(text) - _WINDOW))
    lead = "..." if start else ""
    tail = "..." if start + _WINDOW < len(text) else ""
    before = lead + visible(text[start:at]).replace("\t", " ")
    after = visible(text[at : start + _WINDOW]).replace("\t", " ") + tail
    return f"\n    {before}{after}\n    {' ' * len(before)}^"
