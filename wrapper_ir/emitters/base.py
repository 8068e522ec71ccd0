"""The base class of emitters: a frozen configuration that turns a planned program into an artifact.

Convention: *emitting is pure*. An emitter holds its options and nothing else; state that changes
during a run lives in an object made for that run. The same program and options therefore give the
same bytes in any process, and several threads may share one emitter.

An emitter does not stop at the first line that it cannot render. It records the line and goes on;
:meth:`Emitter.emit` raises once, with every such line.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, final

from typing_extensions import override

from wrapper_ir.emitters.artifact import Artifact, not_an_artifact
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.options.declared import Legal
from wrapper_ir.options.schema import check_options, options_of
from wrapper_ir.plugins import EMITTERS, plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    # Only annotations name these: options are read without what programs are made of.
    from wrapper_ir.lines.program import AnyLine, Program  # noqa: TC004
    from wrapper_ir.lines.walk import Path  # noqa: TC004

__all__ = ["ArtifactError", "EmitError", "Emitter", "EmitterFaultError", "LogicalProgramError"]
__all__ += ["Problems", "Unsupported", "faults_of"]


# Blame for failing emitters.
#
# A third-party emitter runs as part of this library, so an unexpected exception from it would look
# like a bug in wrapper_ir or in the program. It is reported as that emitter's fault instead.
# Unexpected exceptions from our own emitters propagate unchanged.


class EmitterFaultError(WrapperIRError):
    """A third-party emitter raised an exception that is not a :class:`WrapperIRError`.

    The original exception is the cause of this one. Fields: ``emitter``, its ``package``, what it
    was ``doing``, and the ``error`` as text.
    """

    code = "WIR2008"
    template = "emitter '{emitter}' of {package} failed while {doing}: {error}"
    default_hint = (
        "the fault is in that package, neither in wrapper_ir nor in the program; the traceback"
        " (--traceback on the command line) shows where"
    )


class ArtifactError(WrapperIRError):
    """An emitter returned something that is not an artifact.

    Fields: ``emitter``, its ``package``, and the ``reason``.
    """

    code = "WIR2009"
    template = "emitter '{emitter}' of {package} returned no artifact: {reason}"
    default_hint = (
        "the fault is in that package: wrapper_ir.emitters.Artifact says what it has to return"
    )


def package_of(emitter: type[Emitter]) -> str:
    """Return the package that an emitter comes from: ``wir-plain 0.1.0``, or else its module."""
    root = emitter.__module__.partition(".")[0]
    for point in plugins(EMITTERS):
        if point.dist is not None and point.module.partition(".")[0] == root:
            return f"{point.dist.name} {point.dist.version}"
    return f"the module '{emitter.__module__}'"


def is_ours(emitter: type[Emitter]) -> bool:
    """Return whether an emitter is part of wrapper_ir."""
    return emitter.__module__.partition(".")[0] == __name__.partition(".")[0]


@contextlib.contextmanager
def faults_of(emitter: type[Emitter], doing: str) -> Iterator[None]:
    """Report unexpected exceptions of an emitter under its name and package.

    Args:
        emitter: The emitter whose code runs in the block.
        doing: What it is doing, as in "failed while ...".

    Raises:
        EmitterFaultError: The block raised something other than an error of wrapper_ir, and the
            emitter is not part of wrapper_ir.
    """
    try:
        yield
    except WrapperIRError:
        raise
    except Exception as error:
        if is_ours(emitter):
            raise
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise EmitterFaultError(
            emitter=emitter.name or emitter.__name__,
            package=package_of(emitter),
            doing=doing,
            error=text,
        ) from error


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A line that an emitter cannot render, with its path and the reason."""

    line: AnyLine
    path: Path
    reason: str


#: The most paths that are listed of lines with one reason. The rest is counted.
_PATHS: Final = 3


def _listing(problems: Sequence[Unsupported]) -> str:
    """Return a row for each reason, in the order of the first lines that have it."""
    paths: dict[str, list[str]] = {}
    for each in problems:
        paths.setdefault(f"'{each.line.mnemonic}': {each.reason}", []).append(str(each.path))
    rows = []
    for reason, places in paths.items():
        more = f" and {len(places) - _PATHS} more" if len(places) > _PATHS else ""
        rows.append(f"  {', '.join(places[:_PATHS])}{more}: {reason}")
    return "\n".join(rows)


class EmitError(WrapperIRError):
    """An emitter cannot render some lines of a program; the error holds all of them.

    Args:
        emitter: The name of the emitter.
        problems: Every line that it cannot render.
        origin: The place in the model that the first of them comes from.
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
        super().__init__(
            emitter=emitter,
            problems=tuple(problems),
            count=len(problems),
            listing=_listing(problems),
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
        """Pickle without the fields that the constructor derives."""
        rebuild, (cls, keywords) = super().__reduce__()
        derived = ("count", "listing")
        return rebuild, (cls, {k: v for k, v in keywords.items() if k not in derived})


class LogicalProgramError(WrapperIRError):
    """An emitter was given a program whose memory is not planned."""

    code = "WIR2002"
    template = (
        "emitter '{emitter}' needs a planned program; the memory of '{program}' is not planned"
    )
    default_hint = "use wir.emit, which plans first, or wir.plan_memory(program)"


class MissingConstantError(WrapperIRError):
    """A program that is being loaded has constants without values.

    Fields: ``program``, and ``names`` of the constants.
    """

    code = "WIR2006"
    template = "program '{program}' has no values for its constants {names}"
    default_hint = "give them in Program.data, or load the program with the file that holds them"


class MissingOpError(WrapperIRError):
    """A program that is being loaded calls library ops that are not registered.

    Fields: ``program``, and ``names`` of the ops.
    """

    code = "WIR2007"
    template = "program '{program}' calls ops that no loaded library has: {names}"
    default_hint = "load or import the library that defines them first"


class Problems:
    """The lines that could not be rendered in one run."""

    def __init__(self) -> None:
        self._found: list[Unsupported] = []

    def add(self, line: AnyLine, path: Path, reason: str) -> None:
        """Record a line; only the first reason for each is kept."""
        if not self._found or self._found[-1].path != path:
            self._found.append(Unsupported(line, path, reason))

    @property
    def found(self) -> tuple[Unsupported, ...]:
        """All recorded lines, in the order of recording."""
        return tuple(self._found)


class Emitter(ABC):
    """Base of all emitters. A subclass is a frozen dataclass whose fields are its options.

    Options appear under their names in ``wir.emit(program, target, **options)`` and on the command
    line. :func:`wrapper_ir.emitters.options_of` reads a field's type, default and metadata:
    ``help`` (one line of text), ``choices``, ``least`` and ``expected``. Values are checked against
    them when an emitter is created.
    """

    name: ClassVar[str] = ""
    """The target's name, as registered."""

    legal: ClassVar[Legal] = Legal()
    """What of a planned program it can render. The rest is lowered, or rejected by name."""

    builds: ClassVar[bool] = False
    """Whether its programs are built: ``wir.export`` makes libraries and packages of them."""

    @property
    def arena(self) -> str:
        """How long the arenas of programs last that are planned for it: ``call`` or ``kept``.

        An emitter with the option ``arena`` has a field of that name instead.
        """
        return "call"

    def lowering(self, *, probed: bool) -> tuple[str, ...]:
        """Return the passes that programs go through before they are planned for it.

        Each is in the textual form of passes: ``strip-comments``, ``package.module:Name{n=1}``.
        They run after those of the program's devices. None runs for a program that is planned.

        Args:
            probed: Whether the debug printer's probes will be put into the planned program.
        """
        return ()

    def legalisation(self) -> tuple[str, ...]:
        """Return the passes, in textual form, that a planned program goes through for it.

        By default this is the one that makes programs :attr:`legal`, unless all are. They run last,
        after those of the program's devices: what they return is what :meth:`render` gets. A second
        run must change nothing, since a program that went through them may be emitted again.
        """
        return self.legal.passes

    @classmethod
    def kept_text(cls, text: str) -> str:
        """Return a text of its own as files have it that are kept and compared, such as snapshots.

        An emitter overrides it to leave out what depends on the machine, or to use one style.

        Args:
            text: The text of a program in canonical form.
        """
        return text

    def prepare_loading(self) -> None:  # noqa: B027 - most emitters need nothing
        """Start what loading its programs takes once per machine, such as compiling a header.

        It is called when ``torch.compile`` begins to make a program, and must not wait.
        """

    def __post_init__(self) -> None:
        """Check the options' values.

        Raises:
            OptionValueError: A value is not allowed.
        """
        check_options(self)

    @property
    def given(self) -> dict[str, object]:
        """The options that are not at their defaults."""
        values = {o.name: (getattr(self, o.name), o.default) for o in options_of(type(self))}
        return {name: value for name, (value, default) in values.items() if value != default}

    @final
    def emit(self, program: Program) -> Artifact:
        """Render a planned program.

        Raises:
            VerificationError: The program breaks a rule of the IR.
            LogicalProgramError: Its memory is not planned.
            EmitError: The target cannot express some of its lines; the error holds all of them.
            EmitterFaultError: A third-party emitter failed.
            ArtifactError: The emitter returned something that is not an artifact.
        """
        # Reading an emitter's options should not load what programs are made of, nor the verifier.
        from wrapper_ir.analysis.legality import illegal  # noqa: PLC0415
        from wrapper_ir.lines.program import Stage  # noqa: PLC0415
        from wrapper_ir.verify import verify  # noqa: PLC0415

        if program.stage is not Stage.PLANNED:
            raise LogicalProgramError(emitter=self.name, program=program.name)
        verify(program)
        problems = Problems()
        if self.legal != Legal():
            for path, line, reason in illegal(program, self.legal):
                problems.add(line, path, reason)
            hint = "wir.emit lowers such lines, and so does wir.prepare(program, {!r})"
            self._refuse(program, problems, hint.format(self.name))
        with faults_of(type(self), f"rendering the program '{program.name}'"):
            artifact = self.render(program, problems)
        self._refuse(program, problems)
        reason = not_an_artifact(artifact)
        if reason:
            raise ArtifactError(emitter=self.name, package=package_of(type(self)), reason=reason)
        return artifact

    def _refuse(self, program: Program, problems: Problems, hint: str | None = None) -> None:
        """Raise the error that names all lines that cannot be rendered, if there are any."""
        if problems.found:
            origin = program.origin_of(problems.found[0].line)
            where = None if origin is None else origin.place or origin.module or None
            raise EmitError(emitter=self.name, problems=problems.found, origin=where, hint=hint)

    @abstractmethod
    def render(self, program: Program, problems: Problems) -> Artifact:
        """Render a planned and verified program; record in ``problems`` the lines that it cannot.

        The artifact is discarded if there are problems.
        """
