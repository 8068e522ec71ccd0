"""Programs in files: text, and beside it the values of constants."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir.text.errors import CharacterTextError, FileError, Place
from wrapper_ir.text.printer import print_program
from wrapper_ir.text.reader import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines import Program

_SUFFIX = ".safetensors"


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Writes a program's text to ``path``, and the values of its constants beside it.

    ``m.wir`` has its constants in ``m.safetensors``; a program without constants has none. Origins
    are kept. Each file appears whole or not at all.

    Raises:
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
        stack.enter_context(_replacing(file)).write_text(text, encoding="utf-8", newline="\n")
        if beside is not None:
            from wrapper_ir.text.constants import save_constants  # noqa: PLC0415 - may need torch

            save_constants(program, stack.enter_context(_replacing(beside)), beside)


def load(path: str | os.PathLike[str], *, data: bool = True) -> Program:
    """Reads a program from a file.

    Args:
        path: The text; constants are in the file beside it that ends in ``.safetensors``.
        data: Whether to read the values of constants too. Without, torch is not needed.

    Raises:
        FileError: the file cannot be read.
        TextError: its text is not a program.
        ConstantsError: the values are missing or damaged, or do not fit the program.
    """
    file = Path(path)
    with _reporting("read", file):
        raw = file.read_bytes()
    program = parse(_decoded(raw, str(path)), source_name=str(path))
    if not data or not (program.constants or program.objects):
        return program
    from wrapper_ir.text.constants import load_constants  # noqa: PLC0415 - may need torch

    values: dict[str, Any] = load_constants(program, _beside(file, "read"))
    return program.replace(data=values)


def _beside(file: Path, action: str) -> Path:
    """The file of the constants of a program in ``file``."""
    if file.suffix == _SUFFIX:
        reason = f"the values of its constants go to a file of this name; call it {file.stem}.wir"
        raise FileError(action=action, file=file, reason=reason)
    return file.with_suffix(_SUFFIX)


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
def _replacing(file: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of ``file`` when all went well."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    with _reporting("write", file):
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            temporary.touch()
            mode = temporary.stat().st_mode  # what the umask allows; safetensors writes 0600
            yield temporary
            temporary.chmod(mode)
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _reporting(action: str, file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(action=action, file=file, reason=reason) from error
