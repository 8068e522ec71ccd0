"""The base of every emitter: a frozen configuration that turns a planned program into an artifact.

Convention: *emitting is pure*. An emitter holds its options and nothing else; all that changes
while it works lives in an object made for that one run. So the same program and options give the
same bytes in any process, and one emitter may serve several threads.

An emitter does not stop at the first line that it cannot render. It notes the line and goes on, and
:meth:`Emitter.emit` raises once, with every such line.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, final, runtime_checkable

from typing_extensions import override

from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.program import AnyLine, Program, Stage
from wrapper_ir.lines.walk import Path
from wrapper_ir.options.schema import check_options, options_of
from wrapper_ir.outputs import PROGRAM_FILE, beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# Whose fault it is when an emitter fails: it and its package are named.
#
# An emitter of another package runs as a part of us. What it raises by mistake would be taken for a
# mistake of ours, or of the program's; so it is told as that emitter's. What our own emitters raise
# by mistake is ours, and passes as it is.

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


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A line that an emitter cannot render, where it stands and why."""

    line: AnyLine
    path: Path
    reason: str


class EmitError(WrapperIRError):
    """An emitter cannot render some lines of a program; the error holds all of them.

    Args:
        emitter: Name of the emitter.
        problems: Every line that it cannot render.
        origin: Where in the model the first of them comes from.
    """

    code = "WIR2001"
    template = "emitter '{emitter}' cannot render {count} of the program's lines:\n{listing}"

    def __init__(
        self,
        *,
        emitter: str,
        problems: Sequence[Unsupported],
        path: object | None = None,
        origin: object | None = None,
        hint: str | None = None,
    ) -> None:
        listing = "\n".join(f"  {p.path}: '{p.line.mnemonic}': {p.reason}" for p in problems)
        super().__init__(
            emitter=emitter,
            problems=tuple(problems),
            count=len(problems),
            listing=listing,
            path=path if path is not None else problems[0].path,
            origin=origin,
            hint=hint,
        )
        #: Every line that the emitter cannot render, in program order.
        self.problems: tuple[Unsupported, ...] = tuple(problems)

    @override
    def __reduce__(
        self,
    ) -> tuple[Callable[..., WrapperIRError], tuple[type[WrapperIRError], dict[str, object]]]:
        """Pickle without the fields that the constructor makes itself."""
        rebuild, (cls, keywords) = super().__reduce__()
        made = ("count", "listing")
        return rebuild, (cls, {k: v for k, v in keywords.items() if k not in made})


class LogicalProgramError(WrapperIRError):
    """An emitter was given a program whose memory is not planned."""

    code = "WIR2002"
    template = "emitter '{emitter}' takes planned programs; memory of '{program}' is not planned"
    default_hint = "use wir.emit, which plans first, or wir.plan_memory(program)"


class MissingConstantError(WrapperIRError):
    """A program that is to be loaded has constants without values.

    Fields: ``program``, and ``names`` of the constants.
    """

    code = "WIR2006"
    template = "program '{program}' has no values for its constants {names}"
    default_hint = "give them in Program.data, or load the program with the file that holds them"


class MissingOpError(WrapperIRError):
    """A program that is to be loaded calls library ops that are not there.

    Fields: ``program``, and ``names`` of the ops.
    """

    code = "WIR2007"
    template = "program '{program}' calls ops that no loaded library has: {names}"
    default_hint = "load or import what defines them first"


class Problems:
    """The lines that could not be rendered in one run."""

    def __init__(self) -> None:
        self._found: list[Unsupported] = []

    def add(self, line: AnyLine, path: Path, reason: str) -> None:
        """Notes a line; at most one reason is kept for each."""
        if not self._found or self._found[-1].path != path:
            self._found.append(Unsupported(line, path, reason))

    @property
    def found(self) -> tuple[Unsupported, ...]:
        """All noted lines in the order they were met."""
        return tuple(self._found)


@runtime_checkable
class Artifact(Protocol):
    """The result of emitting a program."""

    @property
    def source(self) -> str:
        """The text in the target's language; empty where the target has none."""

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """Something that runs: ``callable(*inputs) -> tuple of results``. Checks its inputs.

        Raises:
            MissingConstantError: The program has constants whose values are not there.
        """

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """Like :meth:`load`, called with one list, which it empties.

        So what the caller no longer holds dies on time.
        """


@runtime_checkable
class TakesConstants(Artifact, Protocol):
    """An artifact whose text finds its constants in a file, as ``emit --constants beside`` writes.

    The file is called like the text's with ``.safetensors`` behind;
    :func:`wrapper_ir.runtime.load_constants` reads it.
    """

    def constants_beside(self) -> Mapping[str, Any]:
        """Return what the file has to hold: the value of each constant, by the text's name for it.

        Raises:
            MissingConstantError: The program has constants whose values are not there.
        """


# Programs as folders: a module of Python that is run, and what lies beside it.

WRAPPER: Final = "wrapper.py"
"""The module in a program's folder: its boxed ``call`` runs the program."""

CONSTANTS_FILE: Final = beside(File(PROGRAM_FILE)).name
"""The file of constants in it, which belongs to the program's."""


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """A program's text as files, each kernel in one of its own.

    Attributes:
        texts: The text of each file, by its path in the folder.
        maps: Which lines of a file came from which lines of the program, where that is known.
        target: The emitter that wrote them.
        options: Its options, those at their defaults left out.
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
        """Return the files, ``wrapper.py`` among them."""


class Emitter(ABC):
    """Base of all emitters. A subclass is a frozen dataclass; its fields are its options.

    Options appear under their names in ``wir.emit(program, target, **options)`` and on the command
    line. What a field says of them is read by :func:`wrapper_ir.emitters.options_of`: its type and
    default, and in its metadata ``help``, one line of text, ``choices``, ``least`` and
    ``expected``. Values are held against that when an emitter is made.
    """

    name: ClassVar[str]
    """The target's name, as registered."""

    def __post_init__(self) -> None:
        """Check the options' values.

        Raises:
            OptionValueError: One of them is not legal.
        """
        check_options(self)

    @property
    def given(self) -> dict[str, object]:
        """The options that are not at their defaults."""
        values = {o.name: (getattr(self, o.name), o.default) for o in options_of(type(self))}
        return {name: value for name, (value, default) in values.items() if value != default}

    @final
    def emit(self, program: Program) -> Artifact:
        """Renders a planned program.

        Raises:
            VerificationError: The program breaks a rule of the IR.
            LogicalProgramError: Its memory is not planned.
            EmitError: The target cannot express some of its lines; holds all of them.
            EmitterFaultError: An emitter of another package failed.
            ArtifactError: What it made is no artifact.
        """
        # The verifier is a big module; asking for an emitter's options should not load it.
        from wrapper_ir.verify import verify  # noqa: PLC0415

        if program.stage is not Stage.PLANNED:
            raise LogicalProgramError(emitter=self.name, program=program.name)
        verify(program)
        problems = Problems()
        with faults_of(type(self), f"it rendered the program '{program.name}'"):
            artifact = self.render(program, problems)
        if problems.found:
            origin = program.origin_of(problems.found[0].line)
            where = (origin.place or origin.module or None) if origin is not None else None
            raise EmitError(emitter=self.name, problems=problems.found, origin=where)
        reason = _not_an_artifact(artifact)
        if reason:
            raise ArtifactError(emitter=self.name, package=package_of(type(self)), reason=reason)
        return artifact

    @abstractmethod
    def render(self, program: Program, problems: Problems) -> Artifact:
        """Renders a planned and verified program; notes in ``problems`` what it cannot render.

        The artifact is thrown away when there are problems.
        """


def _not_an_artifact(given: object) -> str:
    """Why something is no artifact; empty if it is one. Its text is not asked for: it may cost."""
    what = f"a '{type(given).__name__}'"
    if not hasattr(type(given), "source") and not hasattr(given, "source"):
        return f"{what} has no 'source'"
    lacking = [name for name in ("load", "load_boxed") if not callable(getattr(given, name, None))]
    return f"{what} has no method '{lacking[0]}'" if lacking else ""


def constant_values(program: Program) -> dict[str, Any]:
    """The values of a program's constants, tensors and objects, by their names in the program.

    Raises:
        MissingConstantError: Some are not there.
    """
    names = (*program.constants, *program.objects)
    missing = [name for name in names if name not in program.data]
    if missing:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise MissingConstantError(program=program.name, names=listed)
    return {name: program.data[name] for name in names}
