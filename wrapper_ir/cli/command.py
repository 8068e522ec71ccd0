"""Shared parts of commands: their declaration, and arguments that several of them take."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import click

from wrapper_ir.cli.completion import OPTIONS, PROGRAMS, TARGETS, files, words
from wrapper_ir.errors import nearest
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import ARCHITECTURES
from wrapper_ir.outputs import force

if TYPE_CHECKING:
    from wrapper_ir.debug_printer import DebugPrinter
    from wrapper_ir.lines import Program
    from wrapper_ir.options import Option


F = TypeVar("F", bound="Callable[..., Any]")

#: In a context's ``meta`` when ``--traceback`` was given, wherever on the command line.
TRACEBACK = "wrapper_ir.cli.traceback"


class Group(click.Group):
    """A group that says which command may have been meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = nearest(args[0], self.list_commands(ctx))
            # Newer versions of click say it themselves, where the group's commands are at hand.
            if close is not None and not getattr(error, "possibilities", None):
                message = f"{error.message.rstrip('.')}; did you mean '{close}'?"
                raise click.UsageError(message, ctx) from error
            raise


def examples(text: str) -> str:
    """Return the end of a command's help: examples, shown as they are written."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in text.strip().splitlines())


def traceback_option(function: F) -> F:
    """Add ``--traceback``, which is remembered for ``wrapper_ir.cli.app``."""
    return click.option(
        "--traceback",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_remember_traceback,
        help="Show where an error arose.",
    )(function)


def _remember_traceback(ctx: click.Context, _: click.Parameter, value: object) -> None:
    if value:
        ctx.meta[TRACEBACK] = True


def program_argument(function: F) -> F:
    """Add the argument ``FILE``: a ``.wir`` file, or ``-`` for standard input."""
    return click.argument("file", metavar="FILE.wir", shell_complete=PROGRAMS)(function)


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(
        function
    )


def target_options(
    flag: str, default: str = "python", about: str = "The emitter."
) -> Callable[[F], F]:
    """Add the option that names an emitter, and ``-O`` for the emitter's own options."""

    def add(function: F) -> F:
        target = click.option(
            flag,
            "target",
            default=default,
            show_default=True,
            metavar="NAME",
            help=about,
            shell_complete=TARGETS,
        )
        return target(emitter_options()(function))

    return add


def emitter_options(owner: str = "the emitter") -> Callable[[F], F]:
    """Add ``-O``, for options of an emitter."""
    return click.option(
        "-O",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help=f"An option of {owner}; `wrapper-ir emitters` lists them.",
        shell_complete=OPTIONS,
    )


def force_option(function: F) -> F:
    """Add ``--force``: outputs may take the place of files of other kinds."""
    return click.option(
        "--force",
        is_flag=True,
        expose_value=False,
        callback=_allow_overwriting,
        help="Write also over files that are something else.",
    )(function)


def _allow_overwriting(_: click.Context, __: click.Parameter, value: object) -> None:
    if value:
        force()


def flag(
    option: Option,
    *short: str,
    note: str = "",
    **more: Any,  # noqa: ANN401 - as click.option
) -> Callable[[F], F]:
    """Return the flag of an option of the library.

    Its name, help, default, least value and what shells propose are those of the declaration.

    Args:
        option: The option.
        *short: Further names, such as ``-j``; a long one takes the place of the option's own.
        note: A sentence to end the help.
        **more: What click is told besides, or instead.
    """
    own = () if any(name.startswith("--") for name in short) else (_dashed(option),)
    about = f"{option.help[:1].upper()}{option.help[1:]}."
    given: dict[str, Any] = {"help": f"{about} {note}".rstrip()}
    if option.kind is bool:
        given["is_flag"] = True
    elif option.default not in (None, ()):
        given |= {"default": option.default, "show_default": True}
    if option.choices:
        given["shell_complete"] = words(lambda: map(str, option.choices))
    if option.least is not None:
        given["type"] = click.IntRange(min=option.least)
    return click.option(*short, *own, **(given | more))


def _dashed(option: Option) -> str:
    return "--" + option.name.replace("_", "-")


# What several flags ask for together: each a value, with the flags that it comes from.
#
# A command takes such a value as one argument: ``@asking("given", Inputs)``. Nothing here imports
# torch before it is needed.

#: A decorator that adds a flag to a command.
Flag: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def asking(
    name: str,
    request: Any,  # noqa: ANN401 - a class of flags' values
    *flags: Flag,
) -> Callable[[F], F]:
    """Give a command one argument for several flags.

    Args:
        name: What the command calls the argument.
        request: A dataclass, whose fields are called like the flags' values.
        *flags: The flags, in the order of the help; those of the request by default.
    """
    fields = [field.name for field in dataclasses.fields(request)]

    def add(function: F) -> F:
        @functools.wraps(function)
        def call(**given: object) -> object:
            values = {field: given.pop(field) for field in fields}
            return function(**given, **{name: request(**values)})

        made: Any = call
        for each in reversed(flags or request.FLAGS):
            made = each(made)
        return made  # type: ignore[no-any-return]  # what click gives back is what it was given

    return add


@dataclass(frozen=True)
class Inputs:
    """``--inputs`` and ``--random``, of which one is given."""

    inputs: str | None
    seed: int | None

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        click.option(
            "--inputs",
            metavar="PATH",
            help="A .safetensors file, or a .pt file of plain data.",
            shell_complete=files(".safetensors", ".pt"),
        ),
        click.option("--random", "seed", type=int, metavar="SEED", help="Make inputs up instead."),
    )

    def check(self, where: str = "") -> None:
        """Refuse both and neither; ``where`` begins the message."""
        if (self.inputs is None) == (self.seed is None):
            raise click.UsageError(f"{where}give either --inputs PATH or --random SEED")

    def read(self, program: Program) -> tuple[Any, ...]:
        """Return a program's inputs, read or made up.

        Raises:
            FileError: The file cannot be read.
            InputsError: It does not hold what the program takes.
        """
        from wrapper_ir.cli.tensors import made_up_inputs, read_inputs

        if self.inputs is not None:
            return read_inputs(program, self.inputs)
        return made_up_inputs(program, self.seed or 0)


@dataclass(frozen=True)
class Debugging:
    """``--debug``, ``--debug-filter`` and ``--debug-poison``."""

    debug: str | None
    debug_filter: str
    debug_poison: bool

    @staticmethod
    def flags(about: str) -> tuple[Flag, ...]:
        """Return the flags; ``about`` says what the command does with the values."""
        return (
            flag(take.DEBUG, metavar="LEVEL", default=None, show_default=False, help=about),
            flag(
                take.DEBUG_FILTER,
                metavar="PATTERN",
                help="At these kernels and ops: a glob, or re:...",
            ),
            flag(take.DEBUG_POISON),
        )

    def printer(self, level: str | None) -> DebugPrinter | None:
        """Return the debug printer that is asked for; without ``--debug``, one of this level.

        Raises:
            OptionValueError: There is no such level, or the filter is no pattern.
        """
        from wrapper_ir.debug_printer import make_printer

        return make_printer(self.debug or level, self.debug_filter, poison=self.debug_poison)


@dataclass(frozen=True)
class Building:
    """The ways to build a library."""

    isa: str
    debug_info: bool
    constants: str
    gpu_arch: tuple[str, ...]
    jobs: int | None

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        flag(take.ISA, metavar="NAME"),
        flag(take.DEBUG_INFO),
        flag(take.CONSTANTS, type=click.Choice(take.CONSTANTS.choices)),
        flag(ARCHITECTURES, metavar="SM", multiple=True, note="May be given several times."),
        flag(take.JOBS, "-j"),
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``wir.export`` that are not at their defaults."""
        declared = (take.ISA, take.DEBUG_INFO, take.CONSTANTS, ARCHITECTURES, take.JOBS)
        values = {each.name: (getattr(self, each.name), each.default) for each in declared}
        return {name: value for name, (value, default) in values.items() if value != default}
