"""Shared parts of commands: their declaration, and arguments that several of them take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from wrapper_ir.cli.completion import INSTRUCTION_SETS, LEVELS, OPTIONS, PROGRAMS, TARGETS, files
from wrapper_ir.errors import nearest
from wrapper_ir.outputs import force

if TYPE_CHECKING:
    from collections.abc import Callable

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


def target_options(flag: str) -> Callable[[F], F]:
    """Add the option that names an emitter, and ``-O`` for the emitter's own options."""

    def add(function: F) -> F:
        target = click.option(
            flag,
            "target",
            default="python",
            show_default=True,
            metavar="NAME",
            help="The emitter.",
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


def inputs_options(function: F) -> F:
    """Add ``--inputs`` and ``--random``, of which one is given: :func:`check_inputs`."""
    given = click.option(
        "--inputs",
        metavar="PATH",
        help="A .safetensors file, or a .pt file of plain data.",
        shell_complete=files(".safetensors", ".pt"),
    )
    made = click.option(
        "--random", "seed", type=int, metavar="SEED", help="Make inputs up instead."
    )
    return given(made(function))


def check_inputs(inputs: str | None, seed: int | None) -> None:
    """Refuse both and neither of ``--inputs`` and ``--random``."""
    if (inputs is None) == (seed is None):
        raise click.UsageError("give either --inputs PATH or --random SEED")


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


def isa_option(function: F) -> F:
    """Add ``--isa``."""
    return click.option(
        "--isa",
        default="native",
        show_default=True,
        metavar="NAME",
        help="Processors to build for: native, or a level such as x86-64-v3.",
        shell_complete=INSTRUCTION_SETS,
    )(function)


def debug_options(about: str) -> Callable[[F], F]:
    """Add ``--debug``, ``--debug-filter`` and ``--debug-poison``."""

    def add(function: F) -> F:
        level = click.option("--debug", metavar="LEVEL", help=about, shell_complete=LEVELS)
        which = click.option(
            "--debug-filter",
            default="*",
            show_default=True,
            metavar="PATTERN",
            help="At these kernels and ops: a glob, or re:...",
        )
        poison = click.option(
            "--debug-poison",
            is_flag=True,
            help="Fill new memory with NaN, so that reading it too early shows.",
        )
        return level(which(poison(function)))

    return add
