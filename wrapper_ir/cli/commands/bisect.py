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


@click.command(epilog=examples("""
wrapper-ir bisect good.wir --other bad.wir --random 0
wrapper-ir bisect good.wir --other bad.wir --inputs inputs.safetensors -o reproducer
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
@inputs_options
@click.option("-o", "--output", metavar="FOLDER", help="Write a reproducer of the call.")
@json_option
@traceback_option
def bisect(  # noqa: PLR0913 - an option each
    file: str,
    a: str,
    b: str,
    other: str | None,
    inputs: str | None,
    seed: int | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Run a program in two ways and name the first call that wrote something else.

    Two ways are two emitters, or two versions of the program. What calls wrote is compared bit by
    bit, NaN being equal to NaN. The exit code is 1 when a difference is found.
    """
    check_inputs(inputs, seed)
    if file == other == "-":
        raise click.UsageError("standard input holds one program, not two")
    if output == "-":
        raise click.UsageError("a reproducer is a folder, not standard output")
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.cli.tensors import made_up_inputs, read_inputs
    from wrapper_ir.cli.terminal import step
    from wrapper_ir.debugging import bisect as find

    program = read_program(file, data=True)
    second = read_program(other, data=True) if other is not None else None
    arguments = (
        read_inputs(program, inputs) if inputs is not None else made_up_inputs(program, seed or 0)
    )
    with step("running both ways"):
        found = find(program, arguments, a, b, other=second, folder=output)
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
            "folder": None if found.folder is None else str(found.folder),
        }
        click.echo(json.dumps(record, indent=2))
        return
    click.echo(str(found))
    if found.folder is not None:
        click.echo(f"reproducer: {found.folder}")
