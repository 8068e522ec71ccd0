"""Comparing a folder of source with its program: what was edited by hand, and where.

The program beside the text is read, and rendered again as it was. Both texts are then read as
statements: remarks, empty lines and the layout of lines count for nothing. Where statements differ,
the place is told in the text, and what line or kernel of the program stands there.
"""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wrapper_ir.aot.about import row_of
from wrapper_ir.aot.sources import (
    ENTRY,
    README,
    emitted,
    entry_of,
    index_of_folder,
)
from wrapper_ir.emitters.base import WRAPPER
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.walk import walk
from wrapper_ir.outputs import INDEX, PROGRAM_FILE
from wrapper_ir.text.files import load
from wrapper_ir.text.printer import print_line

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from wrapper_ir.emitters.writer import SourceMap
    from wrapper_ir.lines.program import Program

__all__ = ["Edit", "NotExportedError", "check_folder"]


class NotExportedError(WrapperIRError):
    """A folder was not exported as source, or its index is damaged.

    Fields: ``folder``.
    """

    code = "WIR2279"
    template = "{folder!r} is no folder of source that wrapper_ir exported"
    default_hint = "wir.export(program, 'folder/') writes one, and {index} in it says what it is"


@dataclass(frozen=True, slots=True)
class Edit:
    """A place at which a folder is not what its program says.

    Attributes:
        file: The file, by its path in the folder.
        line: The line in it, counted from 1; 0 for the file as a whole.
        where: The lines or the kernel of the program that stand there, or what is wrong with the
            file as a whole, in words.
        was: The lines that the program gives.
        now: The lines that are there.
    """

    file: str
    line: int
    where: str
    was: tuple[str, ...] = ()
    now: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        lines = [f"{place}: {self.where}"]
        for sign, texts in (("-", self.was), ("+", self.now)):
            lines += [f"  {sign} {text}" for text in texts[:_MOST_SHOWN]]
            if len(texts) > _MOST_SHOWN:
                lines.append(f"  {sign} ... and {len(texts) - _MOST_SHOWN} more lines")
        return "\n".join(lines)


#: Lines of an edit that are shown.
_MOST_SHOWN: Final = 6


def check_folder(path: str | os.PathLike[str]) -> list[Edit]:
    """Compare the text in a folder that was exported with the program in it.

    Nothing is compiled or run. Remarks and the layout of lines do not count.

    Args:
        path: The folder.

    Returns:
        Every place at which they differ, file by file; empty where the folder still is the program.

    Raises:
        NotExportedError: It is no such folder.
        WrapperIRError: The program in it cannot be read, or breaks a rule.
    """
    return list(_checked(Path(path)))


def _checked(folder: Path, inside: str = "") -> Iterator[Edit]:
    """Yield the edits of a folder, and of those in it."""
    about = index_of_folder(folder / inside)
    if about is None:
        raise NotExportedError(folder=str(folder / inside), index=INDEX)
    programs = about.get("programs")
    compared = set()
    if programs is None:
        program = load(folder / inside / PROGRAM_FILE, data=False)
        for file, edits in _compared(folder / inside, program, about):
            compared.add(file)
            yield from (_below(inside, edit) for edit in edits)
    else:
        for name in programs:
            compared |= {path for path in about["files"] if path.startswith(f"{name}/")}
            yield from _checked(folder, f"{inside}{name}/")
        found = {name: load(folder / inside / name / PROGRAM_FILE, data=False) for name in programs}
        compared.add(ENTRY)
        entry = _text_edits(folder / inside / ENTRY, ENTRY, entry_of(found))
        yield from (_below(inside, edit) for edit in entry)
    for name, row in about["files"].items():
        if name not in compared and name != README:
            reason = _whole(folder / inside / name, row)
            yield from [Edit(f"{inside}{name}", 0, reason)] if reason else []


def _below(folder: str, edit: Edit) -> Edit:
    return Edit(f"{folder}{edit.file}", edit.line, edit.where, edit.was, edit.now)


def _whole(file: Path, row: Mapping[str, Any]) -> str:
    """Return what is wrong with a file whose hash alone is known; empty if it is as it was."""
    if not file.is_file():
        return "is missing"
    return "" if row_of(file) == row else "is not as it was written"


def _compared(
    folder: Path, program: Program, about: Mapping[str, Any]
) -> Iterator[tuple[str, list[Edit]]]:
    """Yield each file of a program's text, with its edits."""
    files = emitted(program, about["target"], about["options"]).files()
    texts = {**files.texts, **({ENTRY: entry_of({"": program})} if WRAPPER in files.texts else {})}
    kernels = {
        each.source.code: name
        for name, each in program.kernels.items()
        if not isinstance(each.source, TorchOp)
    }
    for name, text in texts.items():
        where = _Places(program, files.maps.get(name), kernels.get(text))
        yield name, list(_text_edits(folder / name, name, text, where))


class _Places:
    """The words for places in a text: lines of the program, or its kernel.

    Args:
        program: The program.
        lines: Which lines of the text came from which of the program, where that is known.
        kernel: The kernel that the text is of, if it is one's.
    """

    def __init__(self, program: Program, lines: SourceMap | None, kernel: str | None) -> None:
        self._lines = lines
        self._kernel = kernel
        self._program = program
        self._texts: dict[str, str] | None = None

    def words(self, first: int, last: int) -> str:
        """Return what stands at some lines of the text that the program gives."""
        if self._kernel is not None:
            return f"kernel @{self._kernel} was edited"
        paths = () if self._lines is None else self._lines.paths[first - 1 : last]
        found = [*dict.fromkeys(str(path) for path in paths if path is not None)]
        if not found:
            return "what stands around the program's lines was edited"
        if self._texts is None:
            walked = walk(self._program)
            self._texts = {str(path): print_line(line, self._program) for path, line in walked}
        more = f" and {len(found) - 1} more" if found[1:] else ""
        return f"{found[0]} was edited, {self._texts.get(found[0], '').strip()}{more}"


def _text_edits(
    file: Path, name: str, expected: str, places: _Places | None = None
) -> Iterator[Edit]:
    """Yield the edits of one file."""
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError:
        yield Edit(name, 0, "is missing")
        return
    except UnicodeDecodeError:
        yield Edit(name, 0, "is no text")
        return
    if text == expected:
        return
    try:
        was, now = (statements(each, file.suffix) for each in (expected, text))
    except (SyntaxError, ValueError):  # what cannot be read is compared line by line
        was, now = (statements(each, "") for each in (expected, text))
    old, new = expected.splitlines(), text.splitlines()
    matcher = SequenceMatcher(None, [s.key for s in was], [s.key for s in now], autojunk=False)
    for tag, i, j, k, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        # Where statements are gone, those around them say where they were.
        around = was[i:j] or was[max(i - 1, 0) : i]
        first, last = (around[0].first, around[-1].last) if around else (1, 1)
        line = now[k].first if k < len(now) else len(new)
        where = "was edited" if places is None else places.words(first, last)
        gone, come = (_shown(*each) for each in ((old, was[i:j]), (new, now[k:end])))
        yield Edit(name, max(line, 1), where, gone, come)


def _shown(lines: Sequence[str], found: Sequence[Statement]) -> tuple[str, ...]:
    if not found:
        return ()
    return tuple(
        line.strip() for line in lines[found[0].first - 1 : found[-1].last] if line.strip()
    )


# Texts as statements: what is compared, and on which lines it stands.


class Statement(NamedTuple):
    """A statement of a text.

    Attributes:
        key: What it says; equal for two that mean the same.
        first: Its first line, counted from 1.
        last: Its last line.
    """

    key: str
    first: int
    last: int


def statements(text: str, suffix: str) -> list[Statement]:
    """Return the statements of a text, by the ending of its file; lines where that says nothing.

    Raises:
        SyntaxError: A text in Python is none.
        ValueError: Likewise.
    """
    if suffix == ".py":
        return list(_python(ast.parse(text).body))
    if suffix in (".cpp", ".h"):
        return list(_cpp(text))
    lines = enumerate(text.splitlines(), start=1)
    return [Statement(line.rstrip(), n, n) for n, line in lines if line.strip()]


def _python(block: Sequence[Any], within: str = "") -> Iterator[Statement]:
    """Yield the statements of a block; of those that hold others, their heads before these."""
    for node in block:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            continue  # a remark
        blocks = {
            field: value
            for field, value in ast.iter_fields(node)
            if isinstance(value, list) and any(isinstance(each, _HOLDERS) for each in value)
        }
        head = copy.copy(node)
        for field in blocks:
            setattr(head, field, [ast.Pass()] if field == "body" else [])
        first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        last = first if blocks else node.end_lineno
        yield Statement(f"{within} {ast.unparse(head)}", first, last)
        for field, inner in blocks.items():
            yield from _python(inner, f"{within}.{field}")


#: Nodes that stand in blocks.
_HOLDERS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)

_TOKEN: Final = re.compile(
    r"""
    (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    | (?P<space>[^\S\n]+|\\?\n)
    | (?P<remark>//[^\n]*|/\*.*?\*/)
    | (?P<raw>R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    | [A-Za-z_0-9][\w.]*
    | <<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|>>|&&|\|\||\#\#|[-+*/%&|^=!<>]=
    | .
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def _cpp(text: str) -> Iterator[Statement]:
    """Yield the statements of a text in C++: they end with ``;`` or a brace, or are directives."""
    tokens: list[str] = []
    line = first = 1
    for found in _TOKEN.finditer(text):
        token = found[0]
        if found.lastgroup in ("space", "remark"):
            line += token.count("\n")
            continue
        if not tokens:
            first = line
        tokens.append(" ".join(token.split()) if found.lastgroup == "directive" else token)
        line += token.count("\n")
        if found.lastgroup == "directive" or token in (";", "{", "}"):
            yield Statement(" ".join(tokens), first, line)
            tokens = []
    if tokens:
        yield Statement(" ".join(tokens), first, line)
