"""Errors of parsing, printing, and loading and saving files."""

from __future__ import annotations

from typing import NamedTuple

from wrapper_ir.errors import WrapperIRError

__all__ = ["CharacterTextError", "ConflictTextError", "ConstantsError", "ExprTextError"]
__all__ += ["FileError", "NestingTextError", "NumberTextError", "OriginTextError", "Place"]
__all__ += ["SchemaTextError", "StringTextError", "SyntaxTextError", "TextError"]
__all__ += ["UnprintableError", "VersionTextError", "WordTextError"]

#: The most columns of the offending line that a message shows.
_WINDOW = 96


class Place(NamedTuple):
    """A place in a text: file name, line and column from 1, and the text of the line."""

    source: str = "<text>"
    line: int = 1
    column: int = 1
    text: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


class TextError(WrapperIRError):
    """Base of all parse errors. Shows the place, and the line with a caret under the column.

    Args:
        reason: A description of the problem.
        place: The place in the text.
        hint: As in the base class.
        path: Unused, since line and column tell the place.
        origin: As in the base class.
        excerpt: The line with a caret; by default made from ``place``.
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
    """An unexpected token."""

    code = "WIR0201"


class VersionTextError(TextError):
    """The text does not state its version, or states one that this wrapper_ir cannot read."""

    code = "WIR0202"


class CharacterTextError(TextError):
    """A character that is not allowed in a text, or not here."""

    code = "WIR0203"


class StringTextError(TextError):
    """A string literal is not closed, or contains an unknown escape."""

    code = "WIR0204"


class NumberTextError(TextError):
    """A number is malformed or too large."""

    code = "WIR0205"


class WordTextError(TextError):
    """An unknown keyword: a mnemonic, dtype, role or flag."""

    code = "WIR0206"


class NestingTextError(TextError):
    """Brackets or regions are nested too deeply."""

    code = "WIR0207"


class ExprTextError(TextError):
    """An expression is well-formed but not valid in a program."""

    code = "WIR0208"


class ConflictTextError(TextError):
    """A name is declared twice or inconsistently."""

    code = "WIR0209"


class OriginTextError(TextError):
    """A line refers to an origin that is not in the text."""

    code = "WIR0210"


class SchemaTextError(TextError):
    """The schema after ``extern`` cannot be parsed."""

    code = "WIR0211"


class UnprintableError(WrapperIRError):
    """A program contains something that the text form cannot express.

    Printed anyway, it would parse as another program or not at all.
    """

    code = "WIR0220"
    template = "cannot print {what}: {reason}"


class FileError(WrapperIRError):
    """A program's file cannot be read or written."""

    code = "WIR0230"
    template = "cannot {action} '{file}': {reason}"


class ConstantsError(WrapperIRError):
    """The values of constants are missing or do not match the program."""

    code = "WIR0231"
    template = "constants of '{file}': {reason}"


def visible(text: str) -> str:
    """Return the text with non-printing characters escaped."""
    return "".join(c if c.isprintable() or c == "\t" else f"\\u{{{ord(c):x}}}" for c in text)


def _excerpt(text: str, column: int) -> str:
    """Return the line with a caret under the column. Long lines are cut to a window."""
    if not text:
        return ""
    at = max(0, min(column - 1, len(text)))
    start = 0 if len(text) <= _WINDOW else max(0, min(at - _WINDOW // 2, len(text) - _WINDOW))
    lead = "..." if start else ""
    tail = "..." if start + _WINDOW < len(text) else ""
    before = lead + visible(text[start:at]).replace("\t", " ")
    after = visible(text[at : start + _WINDOW]).replace("\t", " ") + tail
    return f"\n    {before}{after}\n    {' ' * len(before)}^"
