"""Rendering a program for the commands that do: the emitter, its options, its text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir.cli.errors import NoTextError, OptionSyntaxError
from wrapper_ir.cli.files import MODULE, STREAM, check_output, write_text
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.options import options_of
from wrapper_ir.options import read_options as read_values
from wrapper_ir.outputs import beside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.emitters import Artifact
    from wrapper_ir.lines import Program


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
