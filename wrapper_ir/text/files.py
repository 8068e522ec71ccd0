"""Programs in files: text, and beside it the values of constants."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir.outputs import Kind, replacing, sidecar
from wrapper_ir.outputs import beside as beside_of
from wrapper_ir.outputs import reading as note_read
from wrapper_ir.text.errors import CharacterTextError, FileError, Place
from wrapper_ir.text.printer import print_program
from wrapper_ir.text.reader import parse

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from wrapper_ir.lines import Program

_SUFFIX = ".safetensors"


def _is_program(file: Path) -> bool:
    """Return whether the first line of a file that is no remark begins a program."""
    with file.open("rb") as opened:
        for line in opened:
            words = line.split()
            if words and not words[0].startswith(b";"):
                return words[0] in (b"wir", b"program")
    return False


#: The text of a program.
PROGRAM = Kind("a wrapper program", _is_program)


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write a program's text to ``path``, and the values of its constants beside it.

    ``m.wir`` has its constants in ``m.safetensors``, a file of another ending (``m.txt``) in one of
    its whole name (``m.txt.safetensors``); a program without constants has none. Origins are kept.
    Each file appears whole or not at all.

    Raises:
        OverwriteError: the file for the constants exists and is not that of this program.
        FileError: a file cannot be written.
        ConstantsError: a value does not fit its layout.
        UnprintableError: the program has no text.
    """
    file = Path(path)
    text = print_program(program, origins=True)
    has_values = program.constants or program.objects
    beside = _beside(file, "write") if has_values else None
    with contextlib.ExitStack() as stack:
        # Left in reverse order: the constants are in place before the text that needs them.
        temporary = stack.enter_context(_replacing(file, PROGRAM))
        temporary.write_text(text, encoding="utf-8", newline="\n")
        if beside is not None:
            from wrapper_ir.text import constants  # noqa: PLC0415 - may need torch

            kind = sidecar(file, constants.owner_of)
            temporary = stack.enter_context(_replacing(beside, kind))
            constants.save_constants(program, temporary, beside, owner=file.name)


def load(path: str | os.PathLike[str], *, data: bool = True) -> Program:
    """Read a program from a file.

    Args:
        path: The text; constants are in the file beside it, as :func:`save` writes them.
        data: Whether to read the values of constants too. Without, torch is not needed.

    Raises:
        FileError: the file cannot be read.
        TextError: its text is not a program.
        ConstantsError: the values are missing or damaged, or do not fit the program.
    """
    file = Path(path)
    note_read(file)
    with _reporting("read", file):
        raw = file.read_bytes()
    program = parse(_decoded(raw, str(path)), source_name=str(path))
    if not (program.constants or program.objects):
        return program
    note_read(beside_of(file))
    if not data:
        return program
    from wrapper_ir.text.constants import load_constants  # noqa: PLC0415 - may need torch

    values: dict[str, Any] = load_constants(program, _beside(file, "read"))
    return program.replace(data=values)


def _beside(file: Path, action: str) -> Path:
    """Return the file of the constants of a program in ``file``."""
    if file.suffix == _SUFFIX:
        reason = f"the values of its constants go to a file of this name; call it {file.stem}.wir"
        raise FileError(action=action, file=file, reason=reason)
    return beside_of(file)


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        raise CharacterTextError(
            reason=f"the byte 0x{raw[error.start]:02x} is not UTF-8",
            place=Place(source, line, column),
        ) from None


@contextlib.contextmanager
def _replacing(file: Path, kind: Kind) -> Iterator[Path]:
    """Yield a file to write to, which takes the place of ``file`` when all went well."""
    with _reporting("write", file), replacing(file, kind) as temporary:
        yield temporary


@contextlib.contextmanager
def _reporting(action: str, file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(action=action, file=file, reason=reason) from error
