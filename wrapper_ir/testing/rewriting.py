"""Writing inline snapshots into the source of tests: whole or not at all, and as text alone.

Convention: a text is written as a literal, and the new source is read again before it replaces the
old one. It has to be the same module but for these literals. So no text, whatever is in it, becomes
code, and what would go wrong leaves the file as it was.
"""

from __future__ import annotations

import ast
import io
import shutil
import tokenize
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import Kind, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_BOM: Final = "\ufeff".encode()

_SOURCE: Final = Kind("the source of a test", lambda _: True)


class InlineSnapshotError(WrapperIRError):
    """An inline snapshot cannot be written. Fields: ``file``, ``line`` and the ``reason``."""

    code = "WIR5002"
    template = "the inline snapshot at {file}:{line} cannot be written: {reason}"
    default_hint = 'write the text in the call itself, as in wir_inline(program, """...""")'


class Site(NamedTuple):
    """The place of a call: lines from 1, columns in bytes from 0, as in ``ast``."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Edit:
    """A new text for the second argument of a call.

    Attributes:
        site: The call.
        before: The text that is there, None if there is none.
        after: The text to write.
    """

    site: Site
    before: str | None
    after: str

    def error(self, reason: str) -> InlineSnapshotError:
        """Return the error that the text cannot be written."""
        return InlineSnapshotError(file=self.site.file, line=self.site.line, reason=reason)

    def stale(self) -> InlineSnapshotError:
        """Return the error that the call is not where it was, or has another text."""
        error = self.error("the file has changed since the test ran")
        error.hint = "run the test again"
        return error


def write_edits(file: str, edits: Iterable[Edit]) -> None:
    """Write new texts into a file: all of them, or none.

    Raises:
        InlineSnapshotError: A text cannot be written, or the file has changed since the test ran.
        OSError: The file cannot be read or written.
    """
    path = Path(file).resolve()
    new = rewritten(path.read_bytes(), tuple(edits))
    with replacing(path, _SOURCE, in_place=True) as temporary:
        temporary.write_bytes(new)
        shutil.copymode(path, temporary)


def rewritten(source: bytes, edits: tuple[Edit, ...]) -> bytes:
    """Return the source of a module, in UTF-8, with new texts in calls.

    Raises:
        InlineSnapshotError: A text cannot be written.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        tree = ast.parse(source.decode(encoding))
    except (SyntaxError, ValueError) as error:
        raise edits[0].error("the file is no longer Python") from error
    if not encoding.startswith("utf-8"):
        raise edits[0].error(f"the file is in {encoding}, not in UTF-8")
    body = source.removeprefix(_BOM)
    lines = body.splitlines(keepends=True)
    calls = {_place(node): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    changes = []
    for edit in edits:
        call = calls.get(edit.site[1:])
        if edit.site.column < 0:
            raise edit.error("Python keeps no places of calls (-X no_debug_ranges)")
        if call is None:
            raise edit.stale()
        start, stop, before = _hole(edit, call, lines)
        value = _block(edit.after, lines[call.lineno - 1])
        literal = before + _quoted(value).encode()
        changes.append((start, stop, _with_ends_of(lines[0], literal)))
        call.args[1:2] = [ast.Constant(value)]
    for start, stop, literal in sorted(changes, reverse=True):
        body = body[:start] + literal + body[stop:]
    if not _is_module(body, tree):
        raise edits[0].error("the call is written in a way that leaves no place for a text")
    return source[: len(source) - len(source.removeprefix(_BOM))] + body


def relocated(before: bytes, after: bytes) -> Callable[[Site], Site]:
    """Return a function that tells where a call is after texts were written into a module."""
    old, new = (
        [_place(node) for node in ast.walk(ast.parse(each)) if isinstance(node, ast.Call)]
        for each in (before, after)
    )
    places = dict(zip(old, new, strict=True))

    def move(site: Site) -> Site:
        line, column, end_line, end_column = places.get(site[1:], site[1:])
        return Site(site.file, line, column, end_line or line, end_column or column)

    return move


def _place(node: ast.expr) -> tuple[int, int, int | None, int | None]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _hole(edit: Edit, call: ast.Call, lines: list[bytes]) -> tuple[int, int, bytes]:
    """Return the bytes that the new text takes the place of, and what comes before it there."""
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if starred or not 1 <= len(call.args) <= 2:
        raise edit.error("the program and its text are not two plain arguments of the call")

    def offset(line: int | None, column: int | None) -> int:
        return sum(map(len, lines[: (line or 1) - 1])) + (column or 0)

    program, *given = call.args
    if not given:
        if edit.before is not None:
            raise edit.stale()
        end = offset(program.end_lineno, program.end_col_offset)
        return end, end, b", "
    (text,) = given
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str | None):
        raise edit.error("its text is not written in the call, but computed")
    if text.value != edit.before:
        raise edit.stale()
    end = offset(text.end_lineno, text.end_col_offset)
    return offset(text.lineno, text.col_offset), end, b""


def _block(text: str, line: bytes) -> str:
    """Return a text indented for a call that begins in a line."""
    indent = line[: len(line) - len(line.lstrip(b" \t"))].decode() + "    "
    rows = [indent + row if row else "" for row in text.split("\n")]
    return "\n".join(("", *rows, indent))


def _quoted(value: str) -> str:
    """Return the literal of a text of several lines."""
    escaped = value.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{"".join(map(_character, escaped))}"""'


def _character(each: str) -> str:
    """Return a character as it is, or escaped if one would not see it."""
    if each == "\n" or unicodedata.category(each)[0] not in "CZ" or each == " ":
        return each
    return each.encode("unicode_escape", "surrogatepass").decode("ascii")


def _with_ends_of(line: bytes, text: bytes) -> bytes:
    """Return a text whose lines end as one of the file does."""
    return text.replace(b"\n", b"\r\n") if line.endswith(b"\r\n") else text


def _is_module(source: bytes, tree: ast.Module) -> bool:
    """Return whether a source is that of a module, positions aside."""
    try:
        return ast.dump(ast.parse(source.decode())) == ast.dump(tree)
    except SyntaxError:
        return False
