"""Reading programs and writing results: ``-`` is a stream, and files appear whole or not at all.

What may be written over, ``wrapper_ir.outputs`` says; here are the kinds of files.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wrapper_ir.cli.errors import FileError, NoTextError, OptionSyntaxError
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.options import options_of
from wrapper_ir.options import read_options as read_values
from wrapper_ir.outputs import Kind, begins_with, beside
from wrapper_ir.outputs import check as check_file
from wrapper_ir.outputs import reading as note_read
from wrapper_ir.outputs import replacing as replacing_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.emitters import Artifact
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


# Rendering a program for the commands that do: the emitter, its options, its text.


def read_options(emitter: type, words: Iterable[str]) -> dict[str, object]:
    """Return keyword arguments for an emitter from ``key=value`` words; ``key`` alone means true.

    Args:
        emitter: A dataclass; its initialising fields are the options.
        words: What stood behind each ``-O``.

    Raises:
        OptionSyntaxError: A word has no key.
        OptionError: The emitter has no such option.
        OptionValueError: The option has, but not with this value.
    """
    pairs = []
    for word in words:
        key, equals, value = word.partition("=")
        if not key.strip():
            raise OptionSyntaxError(text=word)
        pairs.append((key.strip(), value if equals else "true"))
    owner = f"emitter {getattr(emitter, 'name', emitter.__name__)!r}"
    return read_values(options_of(emitter), pairs, owner=owner)


def read_pairs(words: Iterable[str]) -> dict[str, str]:
    """Return what ``key=value`` words say, as text.

    Raises:
        OptionSyntaxError: A word has no key or no value.
    """
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise OptionSyntaxError(text=word)
        found[key] = value
    return found


def check_target(target: str, words: Iterable[str]) -> dict[str, Any]:
    """Return the options for a target; done first, so that a typing error costs no waiting.

    Raises:
        WrapperIRError: There is no such emitter, or not with these options.
    """
    from wrapper_ir.emitters import emitter_class, make_emitter

    options = read_options(emitter_class(target), words)
    make_emitter(target, options)  # checks what the types of its fields cannot say
    return options


def render(program: Program, target: str, options: dict[str, Any]) -> Artifact:
    """Return what a target's emitter makes of a program, planning its memory where needed.

    Raises:
        NoTextError: It is not text.
        WrapperIRError: The program is faulty, or cannot be rendered.
    """
    from wrapper_ir.api import emit
    from wrapper_ir.emitters import ArtifactError, emitter_class, faults_of
    from wrapper_ir.emitters.base import package_of

    artifact, emitter = emit(program, target, **options), emitter_class(target)
    with faults_of(emitter, "it gave its text"):
        text: object = artifact.source
    if not text:
        raise NoTextError(target=target)
    if not isinstance(text, str):
        reason = f"its text is a '{type(text).__name__}'"
        raise ArtifactError(emitter=target, package=package_of(emitter), reason=reason)
    return artifact


def write_module(artifact: Artifact, target: str, file: str, *, constants: bool) -> None:
    """Write what was emitted; with ``constants``, first the values of constants beside it.

    ``wrapper.py`` has them in ``wrapper.py.safetensors``, where it looks for them when it is run.

    Raises:
        UnsupportedError: The target's modules do not take constants from a file.
        WrapperIRError: A file cannot be written, or values are missing.
    """
    if constants and file != STREAM:
        from wrapper_ir.emitters import TakesConstants, emitter_class, faults_of

        if not isinstance(artifact, TakesConstants):
            where = f"emitter '{target}', whose text takes none"
            raise UnsupportedError(what="a file of constants", where=where)
        from wrapper_ir.runtime import save_constants

        with faults_of(emitter_class(target), "it gave the values of constants"):
            values = artifact.constants_beside()
        check_output(file, MODULE)
        save_constants(beside(Path(file)), values, owner=file)
    write_text(file, artifact.source, MODULE)
