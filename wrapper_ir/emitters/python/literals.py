"""Python literals for everything that comes from outside, such that text never becomes code.

Strings are written in printable ASCII: what is not, quotes and backslashes included, becomes an
escape. Comments lose what is not printable ASCII. So neither can end early, hide its reading
direction or move the reader's cursor.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wrapper_ir.lines.layout import DType


_PLAIN: Final = frozenset(map(chr, range(32, 127))) - {'"', "\\"}
_PLAIN_IN_TEXT: Final = _PLAIN | {"\n", "\t", '"', "\\"}

#: Comments that tools take for orders.
_ORDERS: Final = re.compile(
    r"\s*(fmt|yapf|type|noqa|pragma|pylint|mypy|ruff|isort|nosec|pyright|vim|.*coding[:=])",
    re.IGNORECASE,
)


def string(text: str) -> str:
    """A literal of any text, on one line; in double quotes, unless those are in the text."""
    if '"' in text and "'" not in text:
        return "'" + '"'.join(map(_escaped, text.split('"'))) + "'"
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return "".join(char if char in _PLAIN else _escape(char) for char in text)


def _escape(char: str) -> str:
    named = {"\n": r"\n", "\t": r"\t", "\\": r"\\"}.get(char)
    if named is not None:
        return named
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def value(given: object) -> str:
    """A literal of a number, truth value, string or None."""
    if isinstance(given, float) and not math.isfinite(given):
        return f"float({string(repr(given))})"
    return string(given) if isinstance(given, str) else repr(given)


def source_literal(text: str) -> str:
    """A literal of a kernel's source over several lines: raw where possible, else with escapes.

    Raw needs printable ASCII, no triple quote and nothing at the end that would swallow the closing
    one.
    """
    is_plain = set(text) <= _PLAIN_IN_TEXT
    if is_plain and '"""' not in text and not text.endswith(('"', "\\")):
        return f'r"""{text}"""'
    lines = "\n".join(map(_escaped, text.split("\n")))
    return f'"""{lines}"""'


def comment(text: str) -> list[str]:
    """``# text``, one line for each line of the text."""
    lines = []
    for line in text.splitlines():
        clean = prose(line).strip()
        lines.append(f"# | {clean}" if _ORDERS.match(clean) else f"# {clean}".rstrip())
    return lines or ["#"]


def prose(text: str) -> str:
    """The text in printable ASCII, no double quotes or backslashes: for comments and docstrings."""
    return "".join(char if char in _PLAIN else _shown(char) for char in text)


def _shown(char: str) -> str:
    if char == '"':
        return "'"
    return "/" if char == "\\" else "?"


def dtype(value: DType) -> str:
    """``torch.float32``."""
    return f"torch.{value.torch_name}"
