"""``wrapper-ir bisect``: the first call that gives something else in another run."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import click

from wrapper_ir.cli.command import (
    examples,
    json_option,
    program_argument,
    traceback_option,
)
from wrapper_ir.cli.completion import PROGRAMS, TARGETS
from wrapper_ir.cli.requests import Flag, Inputs, asking

if TYPE_CHECKING:
    from wrapper_ir.debugging import BisectResult
    from wrapper_ir.debugging.graphs import Graph


@dataclass(frozen=True)
class Eager:
    """A model whose ATen ops a program is compared with, if one was named."""

    eager: str | None
    args_reference: str | None
    frontend: str

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        click.option(
            "--eager", metavar="MODULE:CALLABLE", help="Compare with this model's ATen ops instead."
        ),
        click.option(
            "--args", "args_reference", metavar="MODULE:ATTR", help="Arguments of that model."
        ),
        click.option(
            "--frontend",
            type=click.Choice(["inductor", "aten"]),
            default="inductor",
            show_default=True,
            help="Who made the program of that model.",
        ),
    )

    def check(self, *, alone: bool) -> None:
        """Refuse a second way besides, and arguments of no model.

        Raises:
            click.UsageError: ``alone`` is false, or there is no model.
        """
        if self.eager is not None and not alone:
            raise click.UsageError("--eager is the second way; leave out -b and --other")
        if self.args_reference is not None and self.eager is None:
            raise click.UsageError("--args belongs to --eager MODULE:CALLABLE")

    def graph(self) -> Graph | None:
        """Return the graph that a program was made of, made anew; None without a model."""
        if self.eager is None:
            return None
        from torch.export import ExportedProgram

        from wrapper_ir.cli.reference import find_model
        from wrapper_ir.cli.terminal import step
        from wrapper_ir.frontends.aten.sources import export_module
        from wrapper_ir.frontends.inductor import capture, record

        with step("capturing the graph"):
            made = find_model(self.eager, self.args_reference)
            if self.frontend == "aten":
                if isinstance(made.model, ExportedProgram):
                    return made.model
                return export_module(made.model, made.args, made.dynamic_shapes, made.kwargs)
            with record() as programs:
                capture(made.model, made.args, made.kwargs, dynamic_shapes=made.dynamic_shapes)
            return programs.graphs[-1]


@click.command(epilog=examples("""
wrapper-ir bisect good.wir --other bad.wir --random 0
wrapper-ir bisect good.wir --other bad.wir --inputs inputs.safetensors -o reproducer
wrapper-ir bisect net.wir --eager model.py:make --random 0    # against ATen, op by op
"""))
@program_argument
@click.option(
    "-a",
    default="python",
    show_default=True,
    metavar="NAME",
    help="The first emitter.",
    shell_complete=TARGETS,
)
@click.option(
    "-b",
    default="python",
    show_default=True,
    metavar="NAME",
    help="The second one.",
    shell_complete=TARGETS,
)
@click.option(
    "--other",
    metavar="FILE.wir",
    help="Another version of the program, for -b to run.",
    shell_complete=PROGRAMS,
)
@asking("model", Eager)
@click.option(
    "--tolerance",
    nargs=2,
    type=click.FloatRange(min=0.0),
    metavar="RELATIVE ABSOLUTE",
    help="Tolerance for results.",
)
@asking("given", Inputs)
@click.option("-o", "--output", metavar="FOLDER", help="Write a reproducer of the call.")
@json_option
@traceback_option
def bisect(  # noqa: PLR0913 - an option each
    file: str,
    a: str,
    b: str,
    other: str | None,
    model: Eager,
    tolerance: tuple[float, float] | None,
    given: Inputs,
    output: str | None,
    as_json: bool,
) -> None:
    """Run a program in two ways and name the first call that wrote something else.

    Two ways are two emitters, or two versions of the program. What calls wrote is compared bit by
    bit, NaN being equal to NaN. The exit code is 1 when a difference is found.

    With --eager the model that the program was captured of is captured again, and its graph is run
    op by op beside the program, with the program's constants. Compared is what is known to be the
    value of one op; floating point may differ by rounding.
    """
    given.check()
    if file == other == "-":
        raise click.UsageError("standard input holds one program, not two")
    if output == "-":
        raise click.UsageError("a reproducer is a folder, not standard output")
    model.check(alone=other is None and b == "python")
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.cli.terminal import step
    from wrapper_ir.debugging import bisect as find

    program = read_program(file, data=True)
    second = read_program(other, data=True) if other is not None else None
    arguments = given.read(program)
    graph = model.graph()
    with step("running both ways"):
        found = find(
            *(program, arguments, a, b if graph is None else "eager"),
            other=second,
            graph=graph,
            tolerance=tolerance,
            folder=output,
        )
    _show(found, as_json)
    sys.exit(1 if found else 0)


def _show(found: BisectResult, as_json: bool) -> None:
    if as_json:
        call = found.call
        record = {
            "call": None if call is None else call.label,
            "path": None if call is None else str(call.path),
            "buffer": found.buffer,
            "difference": found.words,
            "compared": found.compared,
            "skipped": dict(found.skipped),
            "folder": None if found.folder is None else str(found.folder),
        }
        click.echo(json.dumps(record, indent=2))
        return
    click.echo(str(found))
    if found.folder is not None:
        click.echo(f"reproducer: {found.folder}")
