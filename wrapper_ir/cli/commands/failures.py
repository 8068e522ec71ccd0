"""Locating failures: ``bisect`` names the call that differs, ``reduce`` shrinks the program."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli.files import check_output, check_target, read_program, save_program
from wrapper_ir.cli.terminal import counting, step

if TYPE_CHECKING:
    from wrapper_ir.debugging import BisectResult
    from wrapper_ir.debugging.against_graph import Graph
    from wrapper_ir.debugging.reduce import Judge
    from wrapper_ir.lines import Program


@dataclass(frozen=True)
class Eager:
    """The model whose ATen ops a program is compared with, if any."""

    eager: str | None
    args_reference: str | None
    frontend: str

    FLAGS: ClassVar[tuple[cli.Flag, ...]] = (
        cli.valued("--eager", "MODULE:CALLABLE", "Compare with this model's ATen ops instead."),
        cli.args_option("Arguments of that model."),
        cli.frontend_option("The front end that made the program of that model."),
    )

    def check(self, *, alone: bool) -> None:
        """Reject ``--eager`` beside another second way, and ``--args`` without ``--eager``."""
        if self.eager is not None and not alone:
            raise click.UsageError("--eager is the second way; leave out -b and --other")
        if self.args_reference is not None and self.eager is None:
            raise click.UsageError("--args belongs to --eager MODULE:CALLABLE")

    def graph(self) -> Graph | None:
        """Capture the model's graph again, and return it; None without a model."""
        if self.eager is None:
            return None
        from wrapper_ir.cli.graphs import graph_of

        return graph_of(self.eager, self.args_reference, self.frontend)


#: The emitter that a program is run by unless another one is named.
_DEFAULT: Final = "python"


@cli.command("""
wrapper-ir bisect good.wir --other bad.wir --random 0
wrapper-ir bisect good.wir --other bad.wir --inputs inputs.safetensors -o reproducer
wrapper-ir bisect net.wir --eager model.py:make --random 0    # against ATen, op by op
""")
@cli.program_argument
@cli.target_option("-a", _DEFAULT, "The first emitter.")
@cli.target_option("-b", _DEFAULT, "The second emitter.")
@cli.valued(
    *("--other", "FILE.wir", "Another version of the program, for -b to run."),
    shell_complete=cli.FILES,
)
@cli.asking("model", Eager)
@cli.valued(
    *("--tolerance", "RELATIVE ABSOLUTE", "Tolerance for results."),
    nargs=2,
    type=click.FloatRange(min=0.0),
)
@cli.asking("given", cli.Inputs)
@cli.output_option("Write a reproducer of the call.", "FOLDER")
@cli.json_option
def bisect(  # noqa: PLR0913 - one parameter per option
    file: str,
    a: str,
    b: str,
    other: str | None,
    model: Eager,
    tolerance: tuple[float, float] | None,
    given: cli.Inputs,
    output: str | None,
    as_json: bool,
) -> None:
    """Run a program in two ways and name the first call whose results differ.

    The two ways are two emitters, or two versions of the program. The memory that calls write is
    compared bit by bit; NaN equals NaN. The exit code is 1 if a difference is found.

    With --eager the model of the program is captured again, and its graph is run op by op beside
    the program, with the program's constants. Only buffers known to hold the value of one op are
    compared; floating point results may differ by rounding.
    """
    given.check()
    if file == other == "-":
        raise click.UsageError("standard input holds one program, not two")
    if output == "-":
        raise click.UsageError("a reproducer is a folder, not standard output")
    model.check(alone=other is None and b == _DEFAULT)
    from wrapper_ir.debugging import bisect as find

    program = read_program(file, data=True)
    second = read_program(other, data=True) if other is not None else None
    arguments = given.read(program)
    graph = model.graph()
    with step("running both ways"):
        second_way = b if graph is None else "eager"
        ways = (program, arguments, a, second_way)
        result = find(*ways, other=second, graph=graph, tolerance=tolerance, folder=output)
    _show_call(result, as_json)
    sys.exit(1 if result else 0)


def _show_call(result: BisectResult, as_json: bool) -> None:
    folder = None if result.folder is None else str(result.folder)
    if as_json:
        call = result.call
        label, path = (None, None) if call is None else (call.label, str(call.path))
        found = {"call": label, "path": path, "buffer": result.buffer, "difference": result.words}
        run = {"compared": result.compared, "skipped": dict(result.skipped), "folder": folder}
        cli.echo_json({**found, "source": result.source, **run})
        return
    click.echo(str(result))
    if folder is not None:
        click.echo(f"reproducer: {folder}")


# ``wrapper-ir reduce``: shrink a program that fails for as long as it still fails.


@dataclass(frozen=True)
class Failure:
    """The failure to preserve: that of a command, or a difference between emitters."""

    fails: str | None
    says: str
    timeout: float
    differs: str | None

    FLAGS: ClassVar[tuple[cli.Flag, ...]] = (
        cli.valued("--fails", "COMMAND", "It fails if COMMAND's exit code is not 0."),
        cli.valued("--says", "TEXT", "And if COMMAND's output contains TEXT.", default=""),
        cli.valued("--timeout", "SECONDS", "The time limit of one try.", default=60.0),
        cli.valued("--differs", "NAMES", "It fails if the bits of these emitters differ."),
    )

    def check(self, inputs: cli.Inputs) -> None:
        """Reject both ``--fails`` and ``--differs``, neither, and ``--differs`` without inputs."""
        if (self.fails is None) == (self.differs is None):
            raise click.UsageError("give either --fails COMMAND or --differs NAMES")
        if self.differs is not None:
            inputs.check("with --differs, ")

    def judge(self, program: Program, inputs: cli.Inputs) -> tuple[Judge, dict[str, object]]:
        """Return a function that says how a program fails, and the inputs by name, if any."""
        from wrapper_ir.cli.tensors import names_of_inputs
        from wrapper_ir.debugging.reduce import by_command, by_difference

        if self.differs is None:
            return by_command(_words(self.fails or ""), says=self.says, seconds=self.timeout), {}
        targets = [name.strip() for name in self.differs.split(",")]
        for target in targets:
            check_target(target, ())
        values = inputs.read(program)
        by_name = dict(zip(names_of_inputs(program), values, strict=True))
        return by_difference(program, values, targets, seconds=self.timeout), by_name


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--fails: {error}") from error
    if not words:
        raise click.UsageError("--fails: there is no command")
    return words


@cli.command("""
wrapper-ir reduce big.wir --differs python,cpp --random 0
wrapper-ir reduce big.wir --differs fx --inputs inputs.pt -o small.wir
wrapper-ir reduce big.wir --fails 'wrapper-ir emit {} --target cpp' --says WIR1203
wrapper-ir reduce big.wir --fails './my_check.sh'
""")
@cli.program_argument
@cli.asking("failure", Failure)
@cli.asking("given", cli.Inputs)
@cli.output_option("Write the result here  [default: FILE.small.wir]")
@cli.json_option
@cli.force_option
def reduce(
    file: str, failure: Failure, given: cli.Inputs, output: str | None, as_json: bool
) -> None:
    """Remove lines, results and inputs of a program for as long as it fails in the same way.

    Only programs that obey the rules of the IR are tried. In COMMAND, {} stands for the file of the
    program to try; without {}, the file is the last argument. --differs compares emitters with the
    interpreter, bit by bit, and writes the remaining inputs beside the program.
    """
    failure.check(given)
    from wrapper_ir.cli.tensors import names_of_inputs, write_inputs
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
        cli.echo_json(record | {"program": file, "inputs": beside})
    elif file != "-":
        click.echo(f"{how}: {_size(program)} -> {_size(small)}, {file}")
        if beside is not None:
            click.echo(f"inputs: {beside}")
