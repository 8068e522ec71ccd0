"""Python literals and statements: text never becomes code, and lines break as black breaks them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.emitters.writer import PLAIN, prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.lines.layout import DType


# Python literals for text from outside, which must never become code.
#
# Strings are written in printable ASCII; all other characters, quotes and backslashes become
# escapes. Comments lose characters that are not printable ASCII. So neither can end early, change
# the reading direction or move the cursor.

_PLAIN_IN_TEXT: Final = PLAIN | {"\n", "\t", '"', "\\"}

#: Comments that tools read as directives.
_ORDERS: Final = re.compile(
    r"\s*(fmt|yapf|type|noqa|pragma|pylint|mypy|ruff|isort|nosec|pyright|vim|.*coding[:=])",
    re.IGNORECASE,
)


def string(text: str) -> str:
    """Return a literal of any text on one line, in double quotes unless the text contains them."""
    if '"' in text and "'" not in text:
        return "'" + '"'.join(map(_escaped, text.split('"'))) + "'"
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return "".join(char if char in PLAIN else _escape(char) for char in text)


def _escape(char: str) -> str:
    # The codec leaves quotes as they are.
    return rf"\x{ord(char):02x}" if char in '"\r' else char.encode("unicode_escape").decode("ascii")


def value(given: object) -> str:
    """Return a literal of a number, bool, string or None."""
    if isinstance(given, float) and not math.isfinite(given):
        return f"float({string(repr(given))})"
    return string(given) if isinstance(given, str) else repr(given)


def source_literal(text: str) -> str:
    """Return a literal of a kernel's source over several lines: raw if possible, else escaped.

    A raw literal needs printable ASCII, no triple quote, and no quote or backslash at the end.
    """
    is_plain = set(text) <= _PLAIN_IN_TEXT
    if is_plain and '"""' not in text and not text.endswith(('"', "\\")):
        return f'r"""{text}"""'
    lines = "\n".join(map(_escaped, text.split("\n")))
    return f'"""{lines}"""'


def comment(text: str) -> list[str]:
    """Return ``# text``, one line for each line of the text."""
    lines = []
    for line in text.splitlines():
        clean = prose(line).strip()
        lines.append(f"# | {clean}" if _ORDERS.match(clean) else f"# {clean}".rstrip())
    return lines or ["#"]


def dtype(value: DType) -> str:
    """Return ``torch.float32``."""
    return f"torch.{value.torch_name}"


# Statements laid out as black does it, for the few shapes of statements that are needed.
#
# Emitted files are stable under black, and running black on them would cost more than emitting
# them. So statements are built as small trees of brackets and broken over lines by black's rules:
# all on one line if it fits, else the contents of the outermost bracket on one line, else one item
# per line with a trailing comma. Tuple and list displays, unlike calls, skip the middle step.

LINE_LENGTH: Final = 88
"""Black's default."""

_INDENT: Final = " " * 4


@dataclass(frozen=True, slots=True)
class Group:
    """Something in brackets: ``head(item, item)``.

    A display (tuple or list) goes straight to one item per line. Text that contains newlines (the
    source of a kernel) always breaks the brackets around it.
    """

    head: str
    items: tuple[Node, ...]
    brackets: str = "()"
    is_display: bool = False


Node: TypeAlias = str | Group


def call(function: str, *items: Node) -> Group:
    """Return ``function(items)``."""
    return Group(function, items)


def tuple_of(items: Iterable[Node]) -> Group:
    """Return ``(items)``, with the comma that a tuple of one needs."""
    return Group("", tuple(items), "()", is_display=True)


def list_of(items: Iterable[Node]) -> Group:
    """Return ``[items]``."""
    return Group("", tuple(items), "[]", is_display=True)


def dict_of(items: Iterable[tuple[str, str]]) -> Group:
    """Return ``{"key": value}``; keys are names."""
    return Group("", tuple(f'"{key}": {value}' for key, value in items), "{}", is_display=True)


def keyword(name: str, value: Node) -> Node:
    """Return ``name=value``, an argument."""
    if isinstance(value, str):
        return f"{name}={value}"
    return replace(value, head=f"{name}={value.head}")


def flat(node: Node) -> str:
    """Return the node on one line."""
    if isinstance(node, str):
        return node
    inside = _flat_items(node)
    if _is_tuple(node) and len(node.items) == 1:
        inside += ","
    return f"{node.head}{node.brackets[0]}{inside}{node.brackets[1]}"


def _flat_items(node: Group) -> str:
    # The innermost loop of emitting; most items are text already.
    return ", ".join([item if isinstance(item, str) else flat(item) for item in node.items])


def statement(node: Node, width: int, *, head: str = "", tail: str = "") -> list[str]:
    """Return ``head node tail``, broken over lines that are indented relative to the first one.

    ``node`` is the last bracketed part of the statement; indentation takes ``width`` columns. If an
    expression cannot be made to fit, the lines stand between comments that tell black to leave them
    alone.
    """
    return _guarded(_laid_out(node, width, head, tail), width)


def _laid_out(node: Node, width: int, head: str = "", tail: str = "") -> list[str]:
    whole = head + flat(node) + tail
    if isinstance(node, str) and _is_wrapped(head, node, whole, width):
        return [f"{head}(", _INDENT + node, f"){tail}"]
    if isinstance(node, str) or not node.items or _fits(whole, width):
        return [whole]
    opening = f"{head}{node.head}{node.brackets[0]}"
    closing = node.brackets[1] + tail
    inside = _flat_items(node)
    one_per_line = node.is_display and (len(node.items) > 1 or _is_tuple(node))
    if not one_per_line and _fits(inside, width + len(_INDENT)):
        return [opening, _INDENT + inside, closing]
    comma = "," if len(node.items) > 1 or not node.is_display or _is_tuple(node) else ""
    lines = [opening]
    for item in node.items:
        inner = _laid_out(item, width + len(_INDENT), tail=comma)
        lines += [_INDENT + line for line in inner]
    return [*lines, closing]


def assignment(
    targets: Sequence[str], value: Node, width: int, *, unpack: bool = False
) -> list[str]:
    """Return ``a, b = value`` over several lines; ``(a,) = value`` for one target to unpack."""
    left = ", ".join(targets)
    if unpack and len(targets) == 1:
        left = f"({left},)"
    whole_fits = _fits(f"{left} = {flat(value)}", width)
    if len(targets) == 1 or whole_fits or _breaks_after(f"{left} = ", value, width):
        return statement(value, width, head=f"{left} = ")
    *before, last = _laid_out(tuple_of(targets), LINE_LENGTH)
    return _guarded([*before, *_laid_out(value, width, head=f"{last} = ")], width)


def _is_wrapped(head: str, node: str, whole: str, width: int) -> bool:
    """Return whether a dotted name goes to a line of its own, in brackets, to make it fit."""
    fits_apart = _fits(node, width + len(_INDENT)) and not _fits(whole, width)
    return bool(head) and fits_apart and "." in node and _is_dotted(node)


def _guarded(lines: list[str], width: int) -> list[str]:
    """Return the lines, protected from black if it would break one that we cannot."""
    room = LINE_LENGTH - width
    for line in lines:
        if len(line) > room and _is_breakable(line):
            return ["# fmt: off", *lines, "# fmt: on"]
    return lines


def _is_breakable(line: str) -> bool:
    """Return whether black would break a long line: it is more than one name or string."""
    text = line.strip().removesuffix(",")
    return not (_is_string(text) or "\n" in text or _is_dotted(text))


def _is_dotted(text: str) -> bool:
    """Return whether a text is a name, or names with dots between them."""
    return not text.startswith(".") and text.replace(".", "_").isidentifier()


def _is_string(text: str) -> bool:
    """Return whether a text is or begins with a string, perhaps as a keyword argument."""
    name, _, value = text.partition("=")
    return (value if name.isidentifier() else text).removeprefix("r").startswith(('"', "'"))


def _fits(text: str, width: int) -> bool:
    return "\n" not in text and width + len(text) <= LINE_LENGTH


def _is_tuple(node: Group) -> bool:
    return node.is_display and node.brackets == "()" and not node.head.endswith(_NAME_ENDS)


_NAME_ENDS: Final = tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_)]")


def _breaks_after(head: str, value: Node, width: int) -> bool:
    """Return whether the value's brackets can be broken with the head on one line."""
    return (
        not isinstance(value, str)
        and bool(value.items)
        and _fits(head + value.head + value.brackets[0], width)
    )
