"""Reading programs and writing results. ``-`` is a stream; files appear whole or not at all.

``wrapper_ir.outputs`` decides which files may be overwritten; this module defines their kinds.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wrapper_ir import outputs
from wrapper_ir.cli.errors import FileError, NoTextError, OptionSyntaxError, file_errors
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.options import schema
from wrapper_ir.outputs import Kind, begins_with, beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.emitters import Artifact, Emitter
    from wrapper_ir.lines import Program


STREAM = "-"

MODULE: Final = Kind("an emitter's output", begins_with(b"Wrapper program "))
PICTURE: Final = Kind("a picture (SVG)", begins_with(b"<svg "))
TABLE: Final = Kind("a planned table", begins_with(b",offset\n"))


def read_program(file: str, *, data: bool = False) -> Program:
    """Read a program, with ``data`` also the values of its constants from the file beside it."""
    from wrapper_ir.text import load, parse

    if file != STREAM:
        return load(file, data=data)
    return parse(read_text(STREAM), source_name="<stdin>")


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input."""
    name = "standard input" if file == STREAM else repr(file)
    if file == STREAM and sys.stdin is None:  # closed by the parent process
        raise FileError(verb="read", file=name, reason="it is closed")
    if file != STREAM:
        outputs.reading(file)
    with file_errors("read", name):
        raw = sys.stdin.buffer.read() if file == STREAM else Path(file).read_bytes()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
        raise FileError(verb="read", file=name, reason=reason) from error


def write_text(file: str, text: str, kind: Kind, *, in_place: bool = False) -> None:
    """Write text to a file or to standard output; ``in_place`` allows an input of the command."""
    if file == STREAM:
        click.echo(text, nl=not text.endswith("\n"))
        return
    with replacing(file, kind, in_place=in_place) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def save_program(program: Program, file: str) -> None:
    """Write a program, with its constants beside it; to standard output, only the program."""
    if file == STREAM:
        click.echo(str(program))
    else:
        program.save(file)


def check_output(file: str | None, kind: Kind | None = None) -> None:
    """Refuse an output, by default a program, that must not be written, before any work is done."""
    from wrapper_ir.text.files import PROGRAM

    if file is not None and file != STREAM:
        with file_errors("write", repr(file)):
            outputs.check(Path(file), kind or PROGRAM)


@contextlib.contextmanager
def replacing(file: str, kind: Kind, *, in_place: bool = False) -> Iterator[Path]:
    """Do as :func:`wrapper_ir.outputs.replacing`, but raise ``OSError`` as ``FileError``."""
    replacement = outputs.replacing(Path(file), kind, in_place=in_place)
    with file_errors("write", repr(file)), replacement as temporary:
        yield temporary


# Rendering a program: the emitter, its options, its text.


def read_options(emitter: type[Emitter], words: Iterable[str]) -> dict[str, object]:
    """Parse the arguments of ``-O`` into options of an emitter; ``key`` alone means true."""
    pairs = [(key.strip(), value) for key, value in _pairs(words, alone="true")]
    return schema.read_options(schema.options_of(emitter), pairs, owner=f"emitter {emitter.name!r}")


def read_pairs(words: Iterable[str]) -> dict[str, str]:
    """Parse ``key=value`` words."""
    return dict(_pairs(words))


def _pairs(words: Iterable[str], alone: str | None = None) -> Iterator[tuple[str, str]]:
    """Split ``key=value`` words; ``alone`` is the value of a word that is a key."""
    for word in words:
        key, equals, value = word.partition("=")
        if not key.strip() or not (equals or alone):
            raise OptionSyntaxError(text=word)
        yield key, value if equals else alone or ""


def check_target(target: str, words: Iterable[str]) -> dict[str, Any]:
    """Return the options for a target. Commands call this first, to fail fast on a typo."""
    from wrapper_ir.emitters import emitter_class, make_emitter

    options = read_options(emitter_class(target), words)
    make_emitter(target, options)  # also runs the emitter's own checks
    return options


def render(program: Program, target: str, options: dict[str, Any]) -> Artifact:
    """Render a program for a target, planning its memory if needed; the result has a text."""
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
    """Write an emitted text; with ``constants``, first write their values beside it.

    ``wrapper.py`` looks for them in ``wrapper.py.safetensors`` when it runs, and takes no others.

    Raises:
        UnsupportedError: The target's text does not read constants from a file.
        WrapperIRError: A file cannot be written, or values are missing.
    """
    text = artifact.source
    if constants and file != STREAM:
        from wrapper_ir.emitters import NamesConstants, TakesConstants, emitter_class, faults_of

        if not isinstance(artifact, TakesConstants):
            where = f"emitter '{target}', whose text takes none"
            raise UnsupportedError(what="a file of constants", where=where)
        from wrapper_ir.runtime import save_constants

        with faults_of(emitter_class(target), "it gave the values of constants"):
            values = artifact.constants_beside()
        check_output(file, MODULE)
        identity = save_constants(beside(Path(file)), values, owner=file)
        if isinstance(artifact, NamesConstants):
            text = artifact.naming(identity)
    write_text(file, text, MODULE)
