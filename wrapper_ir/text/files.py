"""Programs in files: the text, and a second file with the values of constants."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir.outputs import Kind, replacing, sidecar
from wrapper_ir.outputs import beside as beside_of
from wrapper_ir.outputs import reading as note_read
from wrapper_ir.tensors_file import owner_of
from wrapper_ir.text.errors import CharacterTextError, FileError, Place
from wrapper_ir.text.printer import print_program
from wrapper_ir.text.reader import parse_file

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from wrapper_ir.lines import Program

_SUFFIX = ".safetensors"


def _is_program(file: Path) -> bool:
    """Return whether a file begins like a program, remarks aside."""
    with file.open("rb") as opened:
        for line in opened:
            words = line.split()
            if words and not words[0].startswith(b";"):
                return words[0] in (b"wir", b"program")
    return False


#: The text of a program.
PROGRAM = Kind("a wrapper program", _is_program)


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write a program's text to ``path`` and the values of its constants to a file beside it.

    The constants of ``m.wir`` are in ``m.safetensors``, those of a file with another ending such as
    ``m.txt`` in ``m.txt.safetensors``. A program without constants has no such file. Origins are
    saved. Files are replaced atomically. The text names a hash of the values.

    Raises:
        OverwriteError: The file for the constants exists and belongs to something else.
        FileError: A file cannot be written.
        ConstantsError: A value does not match its layout.
        UnprintableError: The text form cannot express the program.
    """
    file = Path(path)
    beside = _beside(file, "write") if program.constants or program.objects else None
    identity = ""
    with contextlib.ExitStack() as stack:
        # The stack unwinds in reverse: the constants are in place before the text that needs them.
        text_file = stack.enter_context(_replacing(file, PROGRAM))
        if beside is not None:
            from wrapper_ir.text import constants  # noqa: PLC0415 - may need torch

            values = constants.Values(program, beside)
            identity = values.identity
            kind = sidecar(file, owner_of)
            values.write(stack.enter_context(_replacing(beside, kind)), owner=file.name)
        text = print_program(program, origins=True, values=identity)
        text_file.write_text(text, encoding="utf-8", newline="\n")


def load(path: str | os.PathLike[str], *, data: bool = True) -> Program:
    """Read a program from a file.

    Args:
        path: The file of the text. Constants are in the file that :func:`save` writes beside it.
        data: True to load the values of constants too, which needs torch.

    Raises:
        FileError: The file cannot be read.
        TextError: The text is not a program.
        ConstantsError: The values are missing or damaged, or do not match the program.
    """
    file = Path(path)
    note_read(file)
    with _reporting("read", file):
        raw = file.read_bytes()
    program, identity = parse_file(_decoded(raw, str(path)), source_name=str(path))
    if not (program.constants or program.objects):
        return program
    note_read(beside_of(file))
    if not data:
        return program
    from wrapper_ir.text.constants import load_constants  # noqa: PLC0415 - may need torch

    values: dict[str, Any] = load_constants(program, _beside(file, "read"), identity)
    return program.replace(data=values)


def _beside(file: Path, action: str) -> Path:
    """Return the path of the constants that belong to the program in ``file``."""
    if file.suffix == _SUFFIX:
        reason = f"the values of its constants need this name; call the program {file.stem}.wir"
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
    """Yield a temporary file that replaces ``file`` on success."""
    with _reporting("write", file), replacing(file, kind) as temporary:
        yield temporary


@contextlib.contextmanager
def _reporting(action: str, file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(action=action, file=file, reason=reason) from error
