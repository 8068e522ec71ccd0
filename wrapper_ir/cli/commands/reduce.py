"""``wrapper-ir reduce``: a program that fails, made as small as it can be and still fail."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from wrapper_ir.cli.command import (
    examples,
    force_option,
    json_option,
    program_argument,
    traceback_option,
)
from wrapper_ir.cli.requests import Flag, Inputs, asking

if TYPE_CHECKING:
    from wrapper_ir.debugging.reduce import Judge
    from wrapper_ir.lines import Program


@dataclass(frozen=True)
class Failure:
    """The failure that is looked for: a command's, or a difference between emitters."""

    fails: str | None
    says: str
    timeout: float
    differs: str | None

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        click.option(
            "--fails", metavar="COMMAND", help="It fails if this does not end with status 0."
        ),
        click.option(
            "--says", default="", metavar="TEXT", help="And COMMAND has to say this besides."
        ),
        click.option(
            "--timeout", default=60.0, metavar="SECONDS", help="How long one try may take."
        ),
        click.option(
            "--differs", metavar="NAMES", help="It fails if these emitters give other bits."
        ),
    )

    def check(self, inputs: Inputs) -> None:
        """Refuse both and neither of the two, and a difference without inputs.

        Raises:
            click.UsageError: That is so.
        """
        if (self.fails is None) == (self.differs is None):
            raise click.UsageError("give either --fails COMMAND or --differs NAMES")
        if self.differs is not None:
            inputs.check("with --differs, ")

    def judge(self, program: Program, inputs: Inputs) -> tuple[Judge, dict[str, object]]:
        """Return what says how a program fails, and the program's inputs by name, where it has any.

        Raises:
            WrapperIRError: There is no such emitter, or the inputs cannot be read.
        """
        from wrapper_ir.cli.emitting import check_target
        from wrapper_ir.cli.tensors import names_of_inputs
        from wrapper_ir.debugging.reduce import by_command, by_difference

        if self.differs is None:
            return by_command(_words(self.fails or ""), says=self.says, seconds=self.timeout), {}
        targets = [name.strip() for name in self.differs.split(",")]
        for target in targets:
            check_target(target, ())
        given = inputs.read(program)
        values = dict(zip(names_of_inputs(program), given, strict=True))
        return by_difference(program, given, targets, seconds=self.timeout), values


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--fails: {error}") from error
    if not words:
        raise click.UsageError("--fails: there is no command")
    return words


@click.command(epilog=examples("""
wrapper-ir reduce big.wir --differs python,cpp --random 0
wrapper-ir reduce big.wir --differs fx --inputs inputs.pt -o small.wir
wrapper-ir reduce big.wir --fails 'wrapper-ir emit {} --target cpp' --says WIR1203
wrapper-ir reduce big.wir --fails './my_check.sh'
"""))
@program_argument
@asking("failure", Failure)
@asking("given", Inputs)
@click.option("-o", "--output", metavar="PATH", help="Where to  [default: FILE.small.wir]")
@json_option
@force_option
@traceback_option
def reduce(
    file: str,
    failure: Failure,
    given: Inputs,
    output: str | None,
    as_json: bool,
) -> None:
    """Leave out lines, results and inputs of a program for as long as it fails in the same way.

    No program is tried that breaks a rule of the IR. In COMMAND, {} stands for the file of the
    program that is tried; without, the file is the last argument. --differs compares emitters with
    the interpreter, bit by bit, and writes the inputs that are left beside the program.
    """
    failure.check(given)
    from wrapper_ir.cli.files import check_output, read_program, save_program
    from wrapper_ir.cli.tensors import names_of_inputs, write_inputs
    from wrapper_ir.cli.terminal import counting
    from wrapper_ir.debugging import reduce as smaller
    from wrapper_ir.debugging.reduce import NoFailureError
    from wrapper_ir.verify import verify

    program = read_program(file, data=True)
    target_file = output or f"{Path(file).stem if file != '-' else program.name}.small.wir"
    check_output(target_file)
    verify(program)
    judge, values = failure.judge(program, given)
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
