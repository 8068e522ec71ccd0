"""``wrapper-ir bisect``: the first call that gives something else in another run."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import examples, json_option, program_argument, traceback_option

if TYPE_CHECKING:
    from wrapper_ir.debugging import BisectResult


@click.command(epilog=examples("""
wrapper-ir bisect good.wir --other bad.wir --random 0
wrapper-ir bisect good.wir --other bad.wir --inputs inputs.safetensors -o reproducer
"""))
@program_argument
@click.option("-a", default="python", show_default=True, metavar="NAME", help="The first emitter.")
@click.option("-b", default="python", show_default=True, metavar="NAME", help="The second one.")
@click.option("--other", metavar="PATH", help="Another version of the program, for -b to run.")
@click.option("--inputs", metavar="PATH", help="A .safetensors file, or a .pt file of plain data.")
@click.option("--random", "seed", type=int, metavar="SEED", help="Make inputs up instead.")
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
    if (inputs is None) == (seed is None):
        raise click.UsageError("give either --inputs PATH or --random SEED")
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
