"""C++ literals and comments for text from outside, which must never become code.

Strings are written in printable ASCII; other characters become octal escapes of their UTF-8 bytes,
which unlike hexadecimal ones end after three digits whatever follows. The second of two question
marks is escaped, so that there are no trigraphs. Comments lose characters that are not printable
ASCII, and backslashes, which would continue a comment on the next line.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.devices import is_relative
from wrapper_ir.devices import TYPE_NUMBERS, CppSide
from wrapper_ir.emitters.writer import PLAIN
from wrapper_ir.emitters.writer import prose as plain_prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.lines.layout import Device, DType


_NAMED: Final = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}

_INT32: Final = 2**31


def string(text: str) -> str:
    """Return a literal of any text, on one line."""
    inside = "".join(char if char in PLAIN else _escape(char) for char in text)
    return '"' + inside.replace("??", "?\\?") + '"'


def _escape(char: str) -> str:
    named = _NAMED.get(char)
    if named is not None:
        return named
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "backslashreplace"))


def comment(text: str) -> list[str]:
    """Return ``// text``, one line for each line of the text."""
    lines = [f"// {prose(line).strip()}".rstrip() for line in text.splitlines()]
    return lines or ["//"]


def prose(text: str) -> str:
    """Return the text as comments may contain it: without trigraphs."""
    return plain_prose(text).replace("??", "? ?")


def integer(value: int) -> str:
    """Return a literal of at most 64 bits; one that fits in 32 bits has no suffix."""
    if -_INT32 < value < _INT32:
        return str(value)
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def boolean(value: bool) -> str:  # noqa: FBT001 - the value is what is printed
    """Return ``true`` or ``false``."""
    return "true" if value else "false"


def real(value: float) -> str:
    """Return a literal of a double."""
    if math.isnan(value):
        return "std::numeric_limits<double>::quiet_NaN()"
    if math.isinf(value):
        sign = "-" if value < 0 else ""
        return f"{sign}std::numeric_limits<double>::infinity()"
    return repr(value)


def dtype(value: DType) -> str:
    """Return ``wir::dtype::float32``."""
    name = value.torch_name
    return f"wir::dtype::{name}_" if name == "bool" else f"wir::dtype::{name}"


# Devices.


def side_of(device: Device) -> CppSide:
    """Return the C++ side of a device that programs run on."""
    side = device.kind.cpp
    assert side is not None, "lines on other devices were refused"
    return side


HERE: Final = "here"
"""The object that binds a program to the device that is current when it is loaded."""


def device_index(device: Device) -> str:
    """Return the index of a device: the current one's, or by default that of the first one."""
    return HERE if is_relative(device) else str(device.index or 0)


def device_constant(device: Device) -> str:
    """Return the same for a table: -1 for the current device."""
    return "-1" if is_relative(device) else str(device.index or 0)


def device_parts(device: Device) -> tuple[str, str]:
    """Return the type and index of a device for a table.

    Without a number: -1 for the current device, the first one, or -1 for any.
    """
    if is_relative(device):
        return device_type(device), "-1"
    kind = device.kind
    has_number = kind.has_index and (kind.cpp is not None or device.index is not None)
    return device_type(device), device_index(device) if has_number else "-1"


ANYWHERE: Final = ("wir::device::any", "-1")
"""Type and index in the spec of a tensor that may be on any device."""


def device_type(device: Device) -> str:
    """Return the constant for a type of device; unknown types count as private backends."""
    return f"wir::device::{device.type if device.type in TYPE_NUMBERS else 'privateuseone'}"


# Statements broken over lines: filled to the margin, continuation lines indented by four.

LINE_LENGTH: Final = 100
UNIT: Final = "  "
"""One step of indentation."""

_CONTINUED: Final = " " * 4


def call(function: str, *args: str) -> str:
    """Return ``function(args)``."""
    return f"{function}({', '.join(args)})"


def statement(text: str, width: int = 0) -> list[str]:
    """Return a statement as lines, relative to an indentation of ``width`` columns."""
    if width + len(text) <= LINE_LENGTH:
        return [text]
    lines, line = [], ""
    for part in _parts(text):
        if line and width + len(line) + len(part.rstrip()) > LINE_LENGTH:
            lines.append(line.rstrip())
            line = _CONTINUED
        line += part
    return [*lines, line.rstrip()]


def _parts(text: str) -> Iterator[str]:
    """Split a statement where it may be broken: after spaces outside of strings."""
    part, is_open = "", False
    for word in text.split(" "):
        if part and word and not is_open:
            yield part
            part = ""
        plain = word.replace("\\\\", "")
        is_open ^= (plain.count('"') - plain.count('\\"')) % 2 == 1
        part += f"{word} "
    yield part.removesuffix(" ")


def table(head: str, rows: Iterable[str]) -> list[str]:
    """Return ``head = {row, row};``, one row per line."""
    lines = [f"{head} = {{"]
    for row in rows:
        first, *rest = statement(f"{row},", len(UNIT))
        lines += [UNIT + first, *(UNIT + line for line in rest)]
    return [*lines, "};"]
