"""Whose fault it is when an emitter fails: it and its package are named.

An emitter of another package runs as a part of us. What it raises by mistake would be taken for a
mistake of ours, or of the program's; so it is told as that emitter's. What our own emitters raise
by mistake is ours, and passes as it is.
"""

from __future__ import annotations

import contextlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Iterator


GROUP: Final = "wrapper_ir.emitters"
"""The entry point group of emitters."""


class EmitterFaultError(WrapperIRError):
    """An emitter of another package raised something that is no error of ours.

    The exception that it raised is the cause of this one. Fields: ``emitter``, its ``package``,
    what it was ``doing``, and the ``error`` in words.
    """

    code = "WIR2008"
    template = "emitter '{emitter}' of {package} failed while {doing}: {error}"
    default_hint = (
        "the fault is in that package, neither in wrapper_ir nor in the program; the traceback"
        " (--traceback on the command line) shows where"
    )


class ArtifactError(WrapperIRError):
    """An emitter made something of a program that is no artifact.

    Fields: ``emitter``, its ``package``, and the ``reason``.
    """

    code = "WIR2009"
    template = "emitter '{emitter}' of {package} made no artifact: {reason}"
    default_hint = "the fault is in that package: wrapper_ir.emitters.Artifact says what is wanted"


def package_of(emitter: type[object]) -> str:
    """The package that an emitter comes from, in words: ``wir-plain 0.1.0``; else its module."""
    root = emitter.__module__.partition(".")[0]
    for point in entry_points(group=GROUP):
        if point.dist is not None and point.module.partition(".")[0] == root:
            return f"{point.dist.name} {point.dist.version}"
    return f"the module '{emitter.__module__}'"


def is_ours(emitter: type[object]) -> bool:
    """Return whether an emitter is a part of wrapper_ir."""
    return emitter.__module__.partition(".")[0] == __name__.partition(".")[0]


@contextlib.contextmanager
def faults_of(emitter: type[object], doing: str) -> Iterator[None]:
    """Name the emitter and its package in what it raises by mistake.

    Args:
        emitter: Whose code runs in the block.
        doing: What it is doing, as in "failed while ...".

    Raises:
        EmitterFaultError: The block raised what is no error of wrapper_ir's, and the emitter is
            not a part of it.
    """
    try:
        yield
    except WrapperIRError:
        raise
    except Exception as error:
        if is_ours(emitter):
            raise
        words = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise EmitterFaultError(
            emitter=getattr(emitter, "name", emitter.__name__),
            package=package_of(emitter),
            doing=doing,
            error=words,
        ) from error
