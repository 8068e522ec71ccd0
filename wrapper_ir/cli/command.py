"""Shared parts of commands: the group class, completions, options, and groups of options.

The shell starts ``wrapper-ir`` for each completion, so completing imports no torch.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from wrapper_ir.errors import WrapperIRError, nearest
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import ARCHITECTURES
from wrapper_ir.outputs import force

if TYPE_CHECKING:
    from wrapper_ir.debug_printer import DebugPrinter
    from wrapper_ir.lines import Program
    from wrapper_ir.options.schema import Option


F = TypeVar("F", bound="Callable[..., Any]")

#: A decorator that adds a flag to a command.
Flag: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

#: Key in a context's ``meta``, set if ``--traceback`` was given anywhere on the command line.
TRACEBACK = "wrapper_ir.cli.traceback"


class Group(click.Group):
    """A group that suggests the nearest command for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = nearest(args[0], self.list_commands(ctx))
            # Newer versions of click suggest one themselves if the group's commands are loaded.
            if close is not None and not getattr(error, "possibilities", None):
                message = f"{error.message.rstrip('.')}; did you mean '{close}'?"
                raise click.UsageError(message, ctx) from error
            raise


def examples(text: str) -> str:
    """Return the end of a command's help: examples, printed verbatim."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in text.strip().splitlines())


def command(
    text: str, name: str | None = None, *, group: Any = click  # noqa: ANN401 - click, or its group
) -> Callable[[F], click.Command]:
    """Return a decorator for a command with examples and, last, ``--traceback``."""

    def make(function: F) -> click.Command:
        made: click.Command = group.command(name, epilog=examples(text))(function)
        made.params.append(traceback_option())
        return made

    return make


def traceback_option() -> click.Option:
    """Return ``--traceback``, which is recorded for ``wrapper_ir.cli.app``."""
    return click.Option(
        ["--traceback"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, value: value and ctx.meta.update({TRACEBACK: True}),
        help="Show the traceback of an error.",
    )


def echo_json(data: object, *, err: bool = False) -> None:
    """Print data for scripts."""
    click.echo(json.dumps(data, indent=2), err=err)


# Completions.

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


def words(find: Callable[[], Iterable[str]]) -> Complete:
    """Complete words, which are computed on demand."""
    return lambda _, __, word: [CompletionItem(each) for each in find() if each.startswith(word)]


def targets() -> Iterable[str]:
    """Return the names of emitters."""
    from wrapper_ir.emitters import emitter_names

    return emitter_names()


def _options(ctx: click.Context, _: click.Parameter, word: str) -> list[CompletionItem[str]]:
    """Complete ``key=`` and ``key=value`` for the emitter named earlier on the line."""
    from wrapper_ir.emitters import emitter_class, options_of

    try:
        options = options_of(emitter_class(str(ctx.params.get("target") or "cpp")))
    except WrapperIRError:
        return []
    candidates = []
    for option in options:
        values = option.takes.split(" | ")
        candidates += [f"{option.name}={value if len(values) > 1 else ''}" for value in values]
    return [CompletionItem(each) for each in candidates if each.startswith(word)]


#: The shell completes a file's name in its own way.
FILES: Final[Complete] = lambda _, __, word: [CompletionItem(word, type="file")]  # noqa: E731

# Arguments and options of several commands.

#: The argument ``FILE``: a ``.wir`` file, or ``-`` for standard input.
program_argument: Callable[[F], F] = click.argument(
    "file", metavar="FILE.wir", shell_complete=FILES
)

programs_argument: Callable[[F], F] = click.argument(
    "files", metavar="FILE.wir...", nargs=-1, required=True, shell_complete=FILES
)

json_option: Callable[[F], F] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for scripts."
)


#: ``--force``: outputs may replace files of other kinds.
force_option: Callable[[F], F] = click.option(
    "--force",
    is_flag=True,
    expose_value=False,
    callback=lambda _, __, value: force() if value else None,
    help="Overwrite files of other kinds, too.",
)


def valued(
    flag: str, metavar: str, about: str, *more: str, **attributes: Any  # noqa: ANN401 - click's
) -> Callable[[F], F]:
    """Return an option with a value."""
    return click.option(flag, *more, metavar=metavar, help=about, **attributes)


def output_option(
    about: str, metavar: str = "PATH", **attributes: Any  # noqa: ANN401 - click's
) -> Callable[[F], F]:
    """Return ``-o``."""
    return valued("--output", metavar, about, "-o", **attributes)


def args_option(about: str) -> Callable[[F], F]:
    """Return ``--args``."""
    return valued("--args", "MODULE:ATTR", about, "args_reference")


#: ``-O``, for the options of an emitter.
emitter_options: Callable[[F], F] = valued(
    *("-O", "KEY=VALUE", "An option of the emitter; `wrapper-ir emitters` lists them.", "options"),
    multiple=True,
    shell_complete=_options,
)


def frontend_option(about: str) -> Callable[[F], F]:
    """Return ``--frontend``, which names a front end."""
    return choice("--frontend", ("inductor", "aten"), about)


def choice(name: str, among: Sequence[str], about: str) -> Callable[[F], F]:
    """Return an option that takes one of a few words, by default the first."""
    kind = click.Choice(among)
    return click.option(name, type=kind, default=among[0], show_default=True, help=about)


def target_option(flag: str, default: str | None, about: str) -> Callable[[F], F]:
    """Return an option that names an emitter."""
    completed = words(targets)
    return valued(flag, "NAME", about, default=default, show_default=True, shell_complete=completed)


def target_options(default: str = "python", about: str = "The emitter.") -> Callable[[F], F]:
    """Add ``--target``, which names an emitter, and ``-O`` for the emitter's options."""
    target = target_option("--target", default, about)
    return lambda function: target(emitter_options(function))


def flag(
    option: Option, *short: str, note: str = "", **more: Any  # noqa: ANN401 - as click.option
) -> Callable[[F], F]:
    """Return the command line flag of a library option, as its declaration says.

    ``short`` are further names; a long one replaces the option's own. ``note`` is appended to the
    help, and ``more`` adds or overrides arguments of ``click.option``.
    """
    has_long = any(name.startswith("--") for name in short)
    names = short if has_long else (*short, f"--{option.name.replace('_', '-')}")
    about = f"{option.help[:1].upper()}{option.help[1:]}."
    attributes: dict[str, Any] = {"help": f"{about} {note}".rstrip()}
    if option.kind is bool:
        attributes["is_flag"] = True
    elif option.default not in (None, ()):
        attributes |= {"default": option.default, "show_default": True}
    if option.choices:
        attributes["shell_complete"] = words(lambda: map(str, option.choices))
    if option.least is not None:
        attributes["type"] = click.IntRange(min=option.least)
    return click.option(*names, **(attributes | more))


# Groups of flags: each is a dataclass whose fields are the values of its flags.
#
# A command takes a group as one argument: ``@asking("given", Inputs)``.


def asking(
    name: str, group: Any, *flags: Flag  # noqa: ANN401 - a class of flags' values
) -> Callable[[F], F]:
    """Pass the values of a group of flags to a command as one argument of this name.

    The flags, by default ``group.FLAGS``, are in the order of the help.
    """
    fields = [field.name for field in dataclasses.fields(group)]

    def add(function: F) -> F:
        @functools.wraps(function)
        def call(**arguments: object) -> object:
            values = {field: arguments.pop(field) for field in fields}
            return function(**arguments, **{name: group(**values)})

        result: Any = call
        for each in reversed(flags or group.FLAGS):
            result = each(result)
        return result  # type: ignore[no-any-return]  # click returns the function it was passed

    return add


@dataclass(frozen=True)
class Inputs:
    """``--inputs`` and ``--random``, exactly one of which is given."""

    inputs: str | None
    seed: int | None

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        valued(
            *("--inputs", "PATH", "A .safetensors file, or a .pt file of plain data."),
            shell_complete=FILES,
        ),
        valued("--random", "SEED", "Use made-up inputs instead.", "seed", type=int),
    )

    def check(self, where: str = "") -> None:
        """Reject both and neither; ``where`` begins the message."""
        if (self.inputs is None) == (self.seed is None):
            raise click.UsageError(f"{where}give either --inputs PATH or --random SEED")

    def read(self, program: Program) -> tuple[Any, ...]:
        """Return a program's inputs, read from the file or made up."""
        from wrapper_ir.cli.tensors import read_inputs
        from wrapper_ir.interpreter import made_up_inputs

        if self.inputs is not None:
            return read_inputs(program, self.inputs)
        return made_up_inputs(program, self.seed or 0)


@dataclass(frozen=True)
class Debugging:
    """``--debug``, ``--debug-filter`` and ``--debug-poison``."""

    debug: str | None
    debug_filter: str
    debug_poison: bool

    @classmethod
    def asked(cls, about: str) -> Callable[[F], F]:
        """Pass the values as the argument ``probes``; ``about`` is the help of ``--debug``."""
        pattern = "Only at these kernels and ops: a glob, or re:..."
        return asking(
            *("probes", cls),
            flag(take.DEBUG, metavar="LEVEL", default=None, show_default=False, help=about),
            flag(take.DEBUG_FILTER, metavar="PATTERN", help=pattern),
            flag(take.DEBUG_POISON),
        )

    def printer(self, level: str | None) -> DebugPrinter | None:
        """Return the requested debug printer; ``level`` is the default of ``--debug``."""
        from wrapper_ir.debug_printer import make_printer

        return make_printer(self.debug or level, self.debug_filter, poison=self.debug_poison)


@dataclass(frozen=True)
class Building:
    """The options for building a library."""

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
        """The options of ``wir.export`` that differ from their defaults."""
        declared = (take.ISA, take.DEBUG_INFO, take.CONSTANTS, ARCHITECTURES, take.JOBS)
        return {o.name: v for o in declared if (v := getattr(self, o.name)) != o.default}
