"""What every command shares: how it is declared, and the arguments that several of them take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

#: In a context's ``meta`` when ``--traceback`` was given, wherever on the command line.
TRACEBACK = "wrapper_ir.cli.traceback"


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
    return click.argument("file", metavar="FILE.wir")(function)


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(
        function
    )


def target_options(flag: str) -> Callable[[F], F]:
    """Add the option that names an emitter, and ``-O`` for the emitter's own options."""

    def add(function: F) -> F:
        own = click.option(
            "-O", "options", multiple=True, metavar="KEY=VALUE", help="An option of the emitter."
        )
        target = click.option(
            flag, "target", default="python", show_default=True, metavar="NAME", help="The emitter."
        )
        return target(own(function))

    return add
