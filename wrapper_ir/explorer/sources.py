"""The model's source files, as far as a program tells of them.

A program may come from anywhere, so its origins do not decide which files are shown: a file is read
only if it is Python and each line that an origin quotes stands in it, at that number.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from wrapper_ir.explorer.document import SourceFile

if TYPE_CHECKING:
    from wrapper_ir.explorer.document import Frames
    from wrapper_ir.lines import Program

#: The most bytes of a file that is read.
_MOST: Final = 1 << 20


def source_files(program: Program, frames: Frames, *, read: bool) -> list[SourceFile]:
    """Return the files of frames, in the order of their numbers in ``frames.file``."""
    quoted: dict[str, dict[int, str]] = {}
    for origin in program.origins:
        for frame in origin.frames:
            rows = quoted.setdefault(frame.file, {})
            rows[frame.line] = rows.get(frame.line) or frame.code
    assert len(quoted) == len(set(frames.file))
    return files_of(quoted, read=read)


def files_of(quoted: dict[str, dict[int, str]], *, read: bool) -> list[SourceFile]:
    """Return files by the lines that are quoted of them."""
    return [_file(name, rows, read=read) for name, rows in quoted.items()]


def _file(name: str, quoted: dict[int, str], *, read: bool) -> SourceFile:
    text = _unchanged(Path(name), quoted) if read else None
    if text is not None:
        return SourceFile(name, numbers=list(range(1, len(text) + 1)), rows=text, whole=True)
    numbers = sorted(quoted)
    return SourceFile(name, numbers, [quoted[number] for number in numbers], whole=False)


def _unchanged(file: Path, quoted: dict[int, str]) -> list[str] | None:
    """Return the lines of a file if it is still the one that was quoted from."""
    codes = {number: code.strip() for number, code in quoted.items() if code.strip()}
    if file.suffix != ".py" or not codes:
        return None
    try:
        if file.stat().st_size > _MOST:
            return None
        rows = file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):  # gone, unreadable, not a path, not UTF-8
        return None
    same = (0 < n <= len(rows) and rows[n - 1].strip() == code for n, code in codes.items())
    return rows if all(same) else None
