"""``wrapper-ir bisect``: the first call that gives something else in another run."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import (
    check_inputs,
    examples,
    inputs_options,
    json_option,
    program_argument,
    traceback_option,
)
from wrapper_ir.cli.completion import PROGRAMS, TARGETS

if TYPE_CHECKING:
    from wrapper_ir.debugging import BisectResult
    from wrapper_ir.debugging.graphs import Graph


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
@click.option(
    "--eager", metavar="MODULE:CALLABLE", help="Compare with this model's ATen ops instead."
)
@click.option("--args", "args_reference", metavar="MODULE:ATTR", help="Arguments of that model.")
@click.option(
    "--frontend",
    type=click.Choice(["inductor", "aten"]),
    default="inductor",
    show_default=True,
    help="Who made the program of that model.",
)
@click.option(
    "--tolerance",
    nargs=2,
    type=click.FloatRange(min=0.0),
    metavar="RELATIVE ABSOLUTE",
    help="Tolerance for results.",
)
@inputs_options
@click.option("-o", "--output", metavar="FOLDER", help="Write a reproducer of the call.")
@json_option
@traceback_option
def bisect(  # noqa: PLR0913 - an option each
    file: str,
    a: str,
    b: str,
    other: str | None,
    eager: str | None,
    args_reference: str | None,
    frontend: str,
    tolerance: tuple[float, float] | None,
    inputs: str | None,
    seed: int | None,
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
    check_inputs(inputs, seed)
    if file == other == "-":
        raise click.UsageError("standard input holds one program, not two")
    if output == "-":
        raise click.UsageError("a reproducer is a folder, not standard output")
    if eager is not None and (other is not None or b != "python"):
        raise click.UsageError("--eager is the second way; leave out -b and --other")
    if args_reference is not None and eager is None:
        raise click.UsageError("--args belongs to --eager MODULE:CALLABLE")
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.cli.tensors import made_up_inputs, read_inputs
    from wrapper_ir.cli.terminal import step
    from wrapper_ir.debugging import bisect as find

    program = read_program(file, data=True)
    second = read_program(other, data=True) if other is not None else None
    arguments = (
        read_inputs(program, inputs) if inputs is not None else made_up_inputs(program, seed or 0)
    )
    graph = None
    if eager is not None:
        b = "eager"
        with step("capturing the graph"):
            graph = _graph(eager, args_reference, frontend)
    with step("running both ways"):
        found = find(
            *(program, arguments, a, b),
            other=second,
            graph=graph,
            tolerance=tolerance,
            folder=output,
        )
    _show(found, as_json)
    sys.exit(1 if found else 0)


def _graph(reference: str, args_reference: str | None, frontend: str) -> Graph:
    """The graph that a program was made of, made anew."""
    from torch.export import ExportedProgram

    from wrapper_ir.cli.reference import find_model
    from wrapper_ir.frontends.aten.sources import export_module
    from wrapper_ir.frontends.inductor import capture, record

    made = find_model(reference, args_reference)
    if frontend == "aten":
        if isinstance(made.model, ExportedProgram):
            return made.model
        return export_module(made.model, made.args, made.dynamic_shapes, made.kwargs)
    with record() as programs:
        capture(made.model, made.args, made.kwargs, dynamic_shapes=made.dynamic_shapes)
    return programs.graphs[-1]


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
