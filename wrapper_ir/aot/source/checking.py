"""Comparison of a folder of source with its program, to find what was edited by hand.

The program beside the text is read and rendered again. Both texts are then split into statements:
comments, empty lines and the layout of lines do not matter. Each difference is reported with its
place in the text, and with the line or kernel of the program there.
"""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wrapper_ir.aot.package.about import row_of
from wrapper_ir.aot.source.folder import ENTRY, README, emitted, entry_of, index_of_folder
from wrapper_ir.emitters.artifact import WRAPPER
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

    Fields: ``folder`` is its path.
    """

    code = "WIR2279"
    template = "{folder!r} is not a source folder that wrapper_ir exported"
    default_hint = "wir.export(program, 'folder/') writes one, with a file {index} in it"


@dataclass(frozen=True, slots=True)
class Edit:
    """A place at which a folder differs from its program.

    Attributes:
        file: The file, by its path in the folder.
        line: The line in it, counted from 1; 0 for the file as a whole.
        where: The lines or the kernel of the program at that place, or a description of what is
            wrong with the file as a whole.
        was: The original lines, which the program gives.
        now: The current lines.
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


#: The number of lines of an edit that are shown.
_MOST_SHOWN: Final = 6


def check_folder(path: str | os.PathLike[str]) -> list[Edit]:
    """Compare the text in an exported folder with the program in it.

    Nothing is compiled or run. Comments and the layout of lines do not matter.

    Args:
        path: The folder.

    Returns:
        Every place at which they differ, file by file; empty if the folder still matches the
        program.

    Raises:
        NotExportedError: The folder was not exported.
        WrapperIRError: The program in it cannot be read, or breaks a rule.
    """
    return list(_checked(Path(path)))


def _checked(folder: Path, inside: str = "") -> Iterator[Edit]:
    """Yield the edits of a folder and its subfolders."""
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
        loaded = {
            name: load(folder / inside / name / PROGRAM_FILE, data=False) for name in programs
        }
        compared.add(ENTRY)
        entry = _text_edits(folder / inside / ENTRY, ENTRY, entry_of(loaded))
        yield from (_below(inside, edit) for edit in entry)
    for name, row in about["files"].items():
        if name not in compared and name != README:
            reason = _whole(folder / inside / name, row)
            yield from [Edit(f"{inside}{name}", 0, reason)] if reason else []


def _below(folder: str, edit: Edit) -> Edit:
    return replace(edit, file=f"{folder}{edit.file}")


def _whole(file: Path, row: Mapping[str, Any]) -> str:
    """Return what is wrong with a file of which only the hash is known; empty if unchanged."""
    if not file.is_file():
        return "is missing"
    return "" if row_of(file) == row else "is not as it was written"


def _compared(
    folder: Path, program: Program, about: Mapping[str, Any]
) -> Iterator[tuple[str, list[Edit]]]:
    """Yield each file of a program's text with its edits."""
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
    """Descriptions of places in a text by the program's lines, or by its kernel.

    Args:
        program: The program.
        lines: The source map from the text to the program's lines, if known.
        kernel: The kernel whose text it is, if any.
    """

    def __init__(self, program: Program, lines: SourceMap | None, kernel: str | None) -> None:
        self._lines = lines
        self._kernel = kernel
        self._program = program
        self._texts: dict[str, str] | None = None

    def words(self, first: int, last: int) -> str:
        """Return a description of the original text's lines ``first`` to ``last``."""
        if self._kernel is not None:
            return f"kernel @{self._kernel} was edited"
        mapped = () if self._lines is None else self._lines.paths[first - 1 : last]
        paths = [*dict.fromkeys(str(path) for path in mapped if path is not None)]
        if not paths:
            return "the text around the program's lines was edited"
        if self._texts is None:
            walked = walk(self._program)
            self._texts = {str(path): print_line(line, self._program) for path, line in walked}
        more = f" and {len(paths) - 1} more" if paths[1:] else ""
        return f"{paths[0]} was edited, {self._texts.get(paths[0], '').strip()}{more}"


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
        yield Edit(name, 0, "is not text")
        return
    if text == expected:
        return
    try:
        was, now = (statements(each, file.suffix) for each in (expected, text))
    except (SyntaxError, ValueError):  # text that cannot be parsed is compared line by line
        was, now = (statements(each, "") for each in (expected, text))
    old, new = expected.splitlines(), text.splitlines()
    matcher = SequenceMatcher(None, [s.key for s in was], [s.key for s in now], autojunk=False)
    for tag, i, j, k, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        # Deleted statements are located by those before them.
        around = was[i:j] or was[max(i - 1, 0) : i]
        first, last = (around[0].first, around[-1].last) if around else (1, 1)
        line = now[k].first if k < len(now) else len(new)
        where = "was edited" if places is None else places.words(first, last)
        removed, added = (_shown(*each) for each in ((old, was[i:j]), (new, now[k:end])))
        yield Edit(name, max(line, 1), where, removed, added)


def _shown(lines: Sequence[str], part: Sequence[Statement]) -> tuple[str, ...]:
    if not part:
        return ()
    return tuple(line.strip() for line in lines[part[0].first - 1 : part[-1].last] if line.strip())


# Texts as statements with their line numbers.


class Statement(NamedTuple):
    """A statement of a text.

    Attributes:
        key: Its normalised text; equal for statements that mean the same.
        first: Its first line, counted from 1.
        last: Its last line.
    """

    key: str
    first: int
    last: int


def statements(text: str, suffix: str) -> list[Statement]:
    """Return the statements of a text in the language of its file's ending; by default its lines.

    Raises:
        SyntaxError: A text in Python cannot be parsed.
        ValueError: Likewise.
    """
    if suffix == ".py":
        return list(_python(ast.parse(text).body))
    if suffix in (".cpp", ".h"):
        return list(_cpp(text))
    lines = enumerate(text.splitlines(), start=1)
    return [Statement(line.rstrip(), n, n) for n, line in lines if line.strip()]


def _python(block: Sequence[Any], within: str = "") -> Iterator[Statement]:
    """Yield the statements of a block; compound ones as their heads, then their blocks."""
    for node in block:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            continue  # a docstring or a bare string
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


#: Nodes that blocks consist of.
_HOLDERS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)

_TOKEN: Final = re.compile(
    r"""
    (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    | (?P<space>[^\S\n]+|\\?\n)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<raw>R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    | [A-Za-z_0-9][\w.]*
    | <<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|>>|&&|\|\||\#\#|[-+*/%&|^=!<>]=
    | .
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def _cpp(text: str) -> Iterator[Statement]:
    """Yield the statements of a C++ text: they end with ``;`` or a brace, or are directives."""
    tokens: list[str] = []
    line = first = 1
    for found in _TOKEN.finditer(text):
        token = found[0]
        if found.lastgroup in ("space", "comment"):
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
