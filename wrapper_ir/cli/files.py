"""Reading programs and writing results: ``-`` is a stream, and files appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines import Program

STREAM = "-"


def read_program(file: str, *, data: bool = False) -> Program:
    """Return the program of a ``.wir`` file or, for ``-``, of standard input.

    Args:
        file: The path, or ``-``.
        data: Whether the constants' values are needed too; they lie beside the file.

    Raises:
        FileError: The stream is closed or not UTF-8.
        WrapperIRError: The file cannot be read, or its text is not a program.
    """
    from wrapper_ir.text import load, parse

    if file != STREAM:
        return load(file, data=data)
    return parse(read_text(STREAM), source_name="<stdin>")


def read_text(file: str) -> str:
    """Return the text of a file or, for ``-``, of standard input.

    Raises:
        FileError: It cannot be read, or is not UTF-8.
    """
    name = "standard input" if file == STREAM else repr(file)
    if file == STREAM and sys.stdin is None:  # closed by whoever started us
        raise FileError(verb="read", file=name, reason="it is closed")
    try:
        raw = sys.stdin.buffer.read() if file == STREAM else Path(file).read_bytes()
        return raw.decode("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(verb="read", file=name, reason=reason) from error
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
        raise FileError(verb="read", file=name, reason=reason) from error


def write_text(file: str, text: str) -> None:
    """Write a text to a file, whole or not at all, or to standard output for ``-``.

    Raises:
        FileError: The directory is missing or not writable.
    """
    if file == STREAM:
        click.echo(text, nl=not text.endswith("\n"))
        return
    with replacing(file) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def save_program(program: Program, file: str) -> None:
    """Write a program and, beside it, its constants; only the program to standard output.

    Raises:
        WrapperIRError: A file cannot be written.
    """
    if file == STREAM:
        write_text(file, str(program))
    else:
        program.save(file)


@contextlib.contextmanager
def replacing(file: str) -> Iterator[Path]:
    """Yield a path to write to, in the same directory, that takes ``file``'s place at the end.

    When the block raises, ``file`` is as it was and nothing is left behind.

    Raises:
        FileError: The directory is missing or not writable.
    """
    target = Path(file)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as room:
            temporary = Path(room) / target.name
            yield temporary
            os.replace(temporary, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(verb="write", file=repr(file), reason=reason) from error
