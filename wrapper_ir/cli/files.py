"""Reading programs and writing results: ``-`` is a stream, and files appear whole or not at all.

What may be written over, ``wrapper_ir.outputs`` says; here are the kinds of files.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wrapper_ir.cli.errors import FileError
from wrapper_ir.outputs import Kind, begins_with
from wrapper_ir.outputs import check as check_file
from wrapper_ir.outputs import reading as note_read
from wrapper_ir.outputs import replacing as replacing_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines import Program

STREAM = "-"

MODULE: Final = Kind("what an emitter wrote", begins_with(b"Wrapper program "))
PICTURE: Final = Kind("a picture (SVG)", begins_with(b"<svg "))
TABLE: Final = Kind("a table that was planned", begins_with(b",offset\n"))
SCRIPT: Final = Kind("a script that completes our commands", begins_with(b"_WRAPPER_IR_COMPLETE"))


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
    if file != STREAM:
        note_read(file)
    try:
        raw = sys.stdin.buffer.read() if file == STREAM else Path(file).read_bytes()
        return raw.decode("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(verb="read", file=name, reason=reason) from error
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
        raise FileError(verb="read", file=name, reason=reason) from error


def write_text(file: str, text: str, kind: Kind, *, in_place: bool = False) -> None:
    """Write a text to a file, whole or not at all, or to standard output for ``-``.

    Args:
        file: The path, or ``-``.
        text: What to write.
        kind: What it is.
        in_place: Whether the file is meant to be one that the command has read.

    Raises:
        FileError: The directory is missing or not writable.
        OverwriteError: There is something else of that name.
    """
    if file == STREAM:
        click.echo(text, nl=not text.endswith("\n"))
        return
    with replacing(file, kind, in_place=in_place) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def save_program(program: Program, file: str) -> None:
    """Write a program and, beside it, its constants; only the program to standard output.

    Raises:
        WrapperIRError: A file cannot be written.
    """
    if file == STREAM:
        click.echo(str(program))
    else:
        program.save(file)


def check_output(file: str | None, kind: Kind | None = None) -> None:
    """Refuse an output before any work is done: by default, a program's.

    Raises:
        FileError: It is a directory.
        OverwriteError: There is something else of that name.
    """
    from wrapper_ir.text.files import PROGRAM

    if file is not None and file != STREAM:
        with _reporting(file):
            check_file(Path(file), kind or PROGRAM)


@contextlib.contextmanager
def replacing(file: str, kind: Kind, *, in_place: bool = False) -> Iterator[Path]:
    """Yield a path to write to, in the same directory, that takes ``file``'s place at the end.

    When the block raises, ``file`` is as it was and nothing is left behind.

    Raises:
        FileError: The directory is missing or not writable.
        OverwriteError: There is something else of that name.
    """
    with (
        _reporting(file),
        replacing_output(Path(file), kind, in_place=in_place) as temporary,
    ):
        yield temporary


@contextlib.contextmanager
def _reporting(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(verb="write", file=repr(file), reason=reason) from error
