"""The contract of artifacts: what every one offers, and what one may offer besides.

Each offer is a protocol, and whoever uses it asks ``isinstance(artifact, HasModule)``: caches of
compiled graphs, exports, the command line. No one asks which emitter made an artifact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

from wrapper_ir.outputs import PROGRAM_FILE, beside

if TYPE_CHECKING:

    # Only annotations name these: options are read without what programs are made of.
    from wrapper_ir.emitters.writer import SourceMap  # noqa: TC004
    from wrapper_ir.lines.program import Program

__all__ = ["Artifact", "HasModule", "HasSourceMap", "ModuleText", "NamesConstants"]
__all__ += ["TakesConstants"]


@runtime_checkable
class Artifact(Protocol):
    """The result of emitting a program."""

    @property
    def source(self) -> str:
        """The text in the target's language; empty if the target has none."""

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """Return ``callable(*inputs) -> tuple of results``, which checks its inputs.

        Raises:
            MissingConstantError: The program has constants without values.
        """

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """Like :meth:`load`, for a callable that takes one list and empties it.

        Inputs that the caller no longer holds can then be freed during the call.
        """


@runtime_checkable
class HasSourceMap(Artifact, Protocol):
    """An artifact that says which line of the program each line of its text comes from."""

    @property
    def source_map(self) -> SourceMap:
        """The map from lines of ``source`` to lines of the program that was rendered."""


@runtime_checkable
class TakesConstants(Artifact, Protocol):
    """An artifact whose text reads its constants from a file: ``emit --constants beside``.

    The file has the name of the text's file with the suffix ``.safetensors``;
    :func:`wrapper_ir.runtime.load_constants` reads it.
    """

    def constants_beside(self) -> Mapping[str, Any]:
        """Return the contents of that file: each constant's value, by the text's name for it.

        Raises:
            MissingConstantError: The program has constants without values.
        """


@runtime_checkable
class NamesConstants(TakesConstants, Protocol):
    """One whose text can name the hash of these values, so that it takes no others."""

    def naming(self, identity: str) -> str:
        """Return the text with the hash that :func:`wrapper_ir.runtime.save_constants` returns."""


@dataclass(frozen=True, slots=True)
class ModuleText:
    """A Python module that runs a program without its emitter, for caches of compiled graphs.

    Attributes:
        source: The text. It defines a boxed ``call``.
        constants: The program's constants, by the variable of the module that holds each; whoever
            executes the text sets them.
    """

    source: str
    constants: Mapping[str, str]


@runtime_checkable
class HasModule(Artifact, Protocol):
    """An artifact that caches store as a module. Of others, they store the program."""

    def as_module(self) -> ModuleText:
        """Return the module."""


@runtime_checkable
class TakesLong(HasModule, Protocol):
    """An artifact that takes long to build; modules of another emitter, ``stand_in``, can serve."""

    stand_in: ClassVar[str]

    def as_module_after(self, meanwhile: ModuleText) -> ModuleText:
        """Return the module, which lets another one of the same program serve the first calls."""


# Programs as folders: a Python module to run, with kernels and constants beside it.

WRAPPER: Final = "wrapper.py"
"""The module in a program's folder; its boxed ``call`` runs the program."""

CONSTANTS_FILE: Final = beside(File(PROGRAM_FILE)).name
"""The folder's file of constants."""


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """A program's text as files, with one file per kernel, and the emitter that wrote them.

    ``texts`` and ``maps`` are by path in the folder; a file may have no source map. ``options`` are
    those that are not at their defaults.
    """

    texts: Mapping[str, str]
    maps: Mapping[str, SourceMap]
    target: str
    options: Mapping[str, object]


@runtime_checkable
class HasFiles(Artifact, Protocol):
    """An artifact that can be exported as a folder that runs."""

    @property
    def program(self) -> Program:
        """The planned program that it was made from."""

    def files(self) -> SourceFiles:
        """Return the files, including ``wrapper.py``."""


def not_an_artifact(result: object) -> str:
    """Return why a value is not an artifact, or "". Reads no ``source``, which may be expensive."""
    subject = f"a '{type(result).__name__}'"
    if not hasattr(type(result), "source") and not hasattr(result, "source"):
        return f"{subject} has no 'source'"
    for name in ("load", "load_boxed"):
        if not callable(getattr(result, name, None)):
            return f"{subject} has no method '{name}'"
    return ""
