"""What several flags ask for together: each a value, with the flags that it comes from.

A command takes such a value as one argument: ``@asking("given", Inputs)``. Nothing here imports
torch before it is needed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import click

from wrapper_ir.cli.command import flag
from wrapper_ir.cli.completion import files
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import ARCHITECTURES

if TYPE_CHECKING:
    from wrapper_ir.debug_printer import DebugPrinter
    from wrapper_ir.lines import Program


F = TypeVar("F", bound=Callable[..., Any])

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
        """The options of ``wir.export``."""
        return dataclasses.asdict(self)
