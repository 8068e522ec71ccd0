"""Keywords, names and string escapes of the text form."""

from __future__ import annotations

import re
from typing import Final

import wrapper_ir.lines as ir

# Keywords and names.

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""The name of a buffer, symbol, kernel or parameter."""

MAX_DEPTH: Final = 64
"""The deepest nesting of brackets and of regions. Sympy is recursive, and must not run out of stack
on hostile text."""

MAX_DIGITS: Final = 4000
"""The most decimal digits of an integer. Longer ones are written in hexadecimal, which Python reads
in linear time."""


def is_plain_schema(text: str) -> bool:
    """Return whether a schema can be printed verbatim: it is printable and contains no remark."""
    return text.isprintable() and text == text.strip() and not ({";", "'"} <= set(text))


RESERVED: Final = frozenset(
    (
        *("true", "false", "inf", "nan", "none", "complex", "symbol", "with", "at"),
        *("input", "constant", "buffer", "program", "return", "yield", "in", "out", "inout"),
        *("allocate", "allocate_pool", "allocate_from_pool", "free", "reuse", "reinterpret"),
        *("object", "method", "held"),
        *("kernel", "extern", "call", "compute", "size", "stride", "storage_offset", "item"),
        *("assert", "assert_layout", "align", "cond", "while", "then", "else", "condition"),
        *("assert_apart", "body", "probe", "loc", "stream", "grid", "donated", "static", "wir"),
        "realigned",
        *("event", "mempool", "user", "after", "record_event", "wait_event", "synchronize"),
        *ir.DTYPE_BY_SHORT_NAME,
    )
)
"""Names of symbols that need a dollar sign: ``$free``. It is allowed for any symbol."""

DTYPES: Final = ir.DTYPE_BY_SHORT_NAME
ROLES: Final = {role.value: role for role in ir.GraphRole}
STAGES: Final = {stage.value: stage for stage in ir.Stage}
SCALAR_TYPES: Final = {type_.value: type_ for type_ in ir.ScalarType}
RELATIONS: Final = {relation.value: relation for relation in ir.Relation}


# Escapes, which allow any string in one line of text.
#
# Convention: printable characters of any script are written verbatim. Others (control characters,
# line separators, bidirectional overrides, lone surrogates, unusual spaces) are escaped, so that
# texts mean what they show and survive editors. The escapes are a backslash before a backslash or
# quote, ``\n``, ``\t``, ``\r``, and ``\u{hex}`` for any character.

_NAMED: Final = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_VALUES: Final = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r"}

_ESCAPE: Final = re.compile(r'\\(?:([\\"ntr])|u\{([0-9a-fA-F]{1,6})\}|)')

#: Trailing blanks, which editors strip.
_TRAILING: Final = re.compile(r"[ \t]+\Z")


class EscapeError(ValueError):
    """An unknown escape. ``position`` is its index in the text."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position


def escape(text: str) -> str:
    """Escape backslashes and non-printing characters."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_escape_char, text))


def _escape_char(char: str) -> str:
    return _NAMED.get(char) or (char if char.isprintable() else hex_escape(char))


def hex_escape(char: str) -> str:
    r"""Return ``\u{hex}`` for a character."""
    return f"\\u{{{ord(char):x}}}"


def unescape(text: str) -> str:
    """Undo :func:`escape`."""
    return _ESCAPE.sub(_value, text) if "\\" in text else text


def _value(match: re.Match[str]) -> str:
    if match[1] is not None:
        return _VALUES[match[1]]
    if match[2] is None:
        reason = 'unknown escape; valid are \\\\, \\", \\n, \\t, \\r and \\u{hex}'
        raise EscapeError(reason, match.start())
    code = int(match[2], 16)
    if code > 0x10FFFF:
        raise EscapeError("there is no character with this number", match.start())
    return chr(code)


def quote(text: str) -> str:
    """Return the text as a string literal in double quotes."""
    text = escape(text)
    return '"' + (text.replace('"', '\\"') if '"' in text else text) + '"'


def rest_of_line(text: str) -> str:
    """Return the text escaped for the end of a line, trailing blanks included."""
    return _escape_trailing(escape(text))


def source_lines(text: str) -> list[str]:
    r"""Return a kernel's source as lines with a margin: ``| `` verbatim, ``|\ `` with escapes.

    The source is split at ``\n`` alone. The last line is the text after the last ``\n``.
    """
    return [_source_line(line) for line in text.split("\n")]


def _source_line(line: str) -> str:
    if not line:
        return "|"
    if line.replace("\t", " ").isprintable() and not line.endswith((" ", "\t")):
        return f"| {line}"
    return f"|\\ {_escape_trailing(escape(line))}"


def read_source_line(line: str) -> str:
    """Undo :func:`source_lines` for one line, which starts with ``|``."""
    if line == "|":
        return ""
    if line.startswith("| "):
        return line[2:]
    if line.startswith("|\\ "):
        try:
            return unescape(line[3:])
        except EscapeError as error:
            raise EscapeError(str(error), error.position + 3) from None
    raise EscapeError("a line of source starts with '| ', or with '|\\ ' if it has escapes", 1)


def _escape_trailing(text: str) -> str:
    found = _TRAILING.search(text)
    if found is None:
        return text
    return text[: found.start()] + "".join(map(hex_escape, found[0]))
