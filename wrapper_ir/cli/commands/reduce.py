"""``wrapper-ir reduce``: a program that fails, made as small as it can be and still fail."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import (
    examples,
    force_option,
    inputs_options,
    json_option,
    program_argument,
    traceback_option,
)

if TYPE_CHECKING:
    from wrapper_ir.debugging.reduce import Judge
    from wrapper_ir.lines import Program


@click.command(epilog=examples("""
wrapper-ir reduce big.wir --differs python,cpp --random 0
wrapper-ir reduce big.wir --differs fx --inputs inputs.pt -o small.wir
wrapper-ir reduce big.wir --fails 'wrapper-ir emit {} --target cpp' --says WIR1203
wrapper-ir reduce big.wir --fails './my_check.sh'
"""))
@program_argument
@click.option("--fails", metavar="COMMAND", help="It fails if this does not end with status 0.")
@click.option("--says", default="", metavar="TEXT", help="And COMMAND has to say this besides.")
@click.option("--timeout", default=60.0, metavar="SECONDS", help="How long one try may take.")
@click.option("--differs", metavar="NAMES", help="It fails if these emitters give other bits.")
@inputs_options
@click.option("-o", "--output", metavar="PATH", help="Where to  [default: FILE.small.wir]")
@json_option
@force_option
@traceback_option
def reduce(  # noqa: PLR0913 - an option each
    file: str,
    fails: str | None,
    says: str,
    timeout: float,
    differs: str | None,
    inputs: str | None,
    seed: int | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Leave out lines, results and inputs of a program for as long as it fails in the same way.

    No program is tried that breaks a rule of the IR. In COMMAND, {} stands for the file of the
    program that is tried; without, the file is the last argument. --differs compares emitters with
    the interpreter, bit by bit, and writes the inputs that are left beside the program.
    """
    if (fails is None) == (differs is None):
        raise click.UsageError("give either --fails COMMAND or --differs NAMES")
    if differs is not None and (inputs is None) == (seed is None):
        raise click.UsageError("with --differs, give either --inputs PATH or --random SEED")
    from wrapper_ir.cli.files import check_output, read_program, save_program
    from wrapper_ir.cli.tensors import names_of_inputs, write_inputs
    from wrapper_ir.cli.terminal import counting
    from wrapper_ir.debugging import reduce as smaller
    from wrapper_ir.debugging.errors import NoFailureError
    from wrapper_ir.debugging.reduce import by_command
    from wrapper_ir.verify import verify

    program = read_program(file, data=True)
    target_file = output or f"{Path(file).stem if file != '-' else program.name}.small.wir"
    check_output(target_file)
    verify(program)
    values: dict[str, object] = {}
    if differs is None:
        judge = by_command(_words(fails or ""), says=says, seconds=timeout)
    else:
        judge, values = _by_difference(program, differs.split(","), inputs, seed, timeout)
    how = judge(program)
    if not how:
        raise NoFailureError(program=program.name)
    with counting(f"reducing ({how})") as tell:

        def fails_alike(candidate: Program) -> bool:
            is_alike = judge(candidate) == how
            tell(_size(candidate) if is_alike else "")
            return is_alike

        small = smaller(program, fails_alike)
    save_program(small, target_file)
    beside = None
    if values and target_file != "-":
        beside = str(Path(target_file).with_suffix(".inputs.pt"))
        write_inputs(beside, [values[name] for name in names_of_inputs(small)])
    _show(program, small, how, target_file, beside, as_json=as_json)


def _by_difference(
    program: Program, names: list[str], inputs: str | None, seed: int | None, seconds: float
) -> tuple[Judge, dict[str, object]]:
    """Return a judge that asks emitters, and the program's inputs by name."""
    from wrapper_ir.cli.emitting import check_target
    from wrapper_ir.cli.tensors import made_up_inputs, names_of_inputs, read_inputs
    from wrapper_ir.debugging.reduce import by_difference

    targets = [name.strip() for name in names]
    for target in targets:
        check_target(target, ())
    given = made_up_inputs(program, seed or 0) if inputs is None else read_inputs(program, inputs)
    values = dict(zip(names_of_inputs(program), given, strict=True))
    return by_difference(program, given, targets, seconds=seconds), values


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--fails: {error}") from error
    if not words:
        raise click.UsageError("--fails: there is no command")
    return words


def _size(program: Program) -> str:
    from wrapper_ir.lines import walk
    from wrapper_ir.lines.traits import declares

    count = sum(not declares(line) for _, line in walk(program))
    return f"{count} line{'s' if count != 1 else ''}"


def _show(
    program: Program, small: Program, how: str, file: str, beside: str | None, *, as_json: bool
) -> None:
    if as_json:
        record = {"failure": how, "before": _size(program), "after": _size(small)}
        click.echo(json.dumps(record | {"program": file, "inputs": beside}, indent=2))
    elif file != "-":
        click.echo(f"{how}: {_size(program)} -> {_size(small)}, {file}")
        if beside is not None:
            click.echo(f"inputs: {beside}")
