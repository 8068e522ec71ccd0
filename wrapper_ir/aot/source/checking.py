"""Comparison of a folder of source with its program, to find what was edited by hand.

The program beside the text is read and rendered again, and both texts are compared line by line;
lines that are empty or comments do not matter. Each difference is reported with its place in the
text, and with the line or kernel of the program there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.package.archive import row_of
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
    from collections.abc import Callable, Iterator, Mapping

    from wrapper_ir.emitters.writer import SourceMap
    from wrapper_ir.lines.program import Program

    #: Describes the first to the last of some lines of an original text.
    _Words = Callable[[int, int], str]

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

    Nothing is compiled or run. Lines that are empty or comments do not matter.

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
        where = _words_of(program, files.maps.get(name), kernels.get(text))
        yield name, list(_text_edits(folder / name, name, text, where))


def _words_of(program: Program, lines: SourceMap | None, kernel: str | None) -> _Words:
    """Return what describes places in a text by the program's lines, or by its kernel."""

    @functools.cache
    def texts() -> dict[str, str]:
        return {str(path): print_line(line, program) for path, line in walk(program)}

    def words(first: int, last: int) -> str:
        if kernel is not None:
            return f"kernel @{kernel} was edited"
        mapped = () if lines is None else lines.paths[first - 1 : last]
        paths = [*dict.fromkeys(str(path) for path in mapped if path is not None)]
        if not paths:
            return "the text around the program's lines was edited"
        more = f" and {len(paths) - 1} more" if paths[1:] else ""
        return f"{paths[0]} was edited, {texts().get(paths[0], '').strip()}{more}"

    return words


def _text_edits(
    file: Path, name: str, expected: str, words: _Words = lambda *_: "was edited"
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
    (was, old), (now, new) = (_lines(each, file.suffix) for each in (expected, text))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, i, j, k, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        # Deleted lines are located by the one before them.
        around = was[i:j] or was[max(i - 1, 0) : i] or [1]
        line = now[k] if k < len(now) else text.count("\n") or 1
        where = words(around[0], around[-1])
        removed, added = (tuple(map(str.strip, part)) for part in (old[i:j], new[k:end]))
        yield Edit(name, line, where, removed, added)


#: How a line begins that is a comment, by the endings of files.
_REMARKS: Final = {".py": "#", ".cpp": "//", ".h": "//"}


def _lines(text: str, suffix: str) -> tuple[list[int], list[str]]:
    """Return the lines of a text that are neither empty nor comments, after their numbers."""
    remark = _REMARKS.get(suffix, "\n")
    rows = [(n, line.rstrip()) for n, line in enumerate(text.splitlines(), start=1)]
    rows = [(n, line) for n, line in rows if line and not line.lstrip().startswith(remark)]
    return [n for n, _ in rows], [line for _, line in rows]
