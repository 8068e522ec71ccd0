"""``wrapper-ir run``: call a program."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import click

from wrapper_ir.cli.command import (
    examples,
    force_option,
    json_option,
    program_argument,
    target_options,
    traceback_option,
)
from wrapper_ir.cli.requests import Debugging, Inputs, asking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@click.command(epilog=examples("""
wrapper-ir run program.wir --random 0
wrapper-ir run program.wir --inputs inputs.safetensors -o results.safetensors
wrapper-ir run program.wir --inputs inputs.pt --json
wrapper-ir run program.wir --random 0 --interpret
wrapper-ir run program.wir --random 0 -O arena=kept
wrapper-ir run program.wir --random 0 --debug print --debug-filter '*softmax*'
"""))
@program_argument
@asking("given", Inputs)
@target_options("--target")
@click.option(
    "--interpret",
    "interpreted",
    is_flag=True,
    help="No emitter: run it line by line, slowly, and check every access to memory.",
)
@click.option("-o", "--output", metavar="PATH", help="Write the results (.safetensors).")
@asking("probes", Debugging, *Debugging.flags("Show values: print, names, check, save, stats, ..."))
@json_option
@force_option
@traceback_option
def run(  # noqa: PLR0913 - an option each
    file: str,
    given: Inputs,
    target: str,
    options: tuple[str, ...],
    interpreted: bool,
    output: str | None,
    probes: Debugging,
    as_json: bool,
) -> None:
    """Plan, emit and load a program, call it once, and show its results.

    Inputs in a file go by the names that the program gives them, or in order. --random makes them
    up: normal numbers, integers that are 0 or 1, symbolic sizes at their typical values,
    other numbers at what the program asserts of them, or 1.0.
    """
    given.check()
    if output == "-":
        raise click.UsageError("results go to a file; --json prints what they are like")
    from wrapper_ir.api import compile as compile_program
    from wrapper_ir.cli.emitting import check_target
    from wrapper_ir.cli.files import check_output, read_program, replacing
    from wrapper_ir.cli.tensors import RESULTS, summary, write_results
    from wrapper_ir.cli.terminal import step
    from wrapper_ir.emitters import emitter_class, faults_of
    from wrapper_ir.interpreter import interpret
    from wrapper_ir.passes import pipeline_for, run_passes

    chosen = check_target(target, options)
    program = read_program(file, data=True)
    arguments = given.read(program)
    check_output(output, RESULTS)
    printer = probes.printer(None)
    function: Callable[..., Sequence[Any]]
    if interpreted:
        passes = () if printer is None else pipeline_for(None, printer)
        function = functools.partial(interpret, run_passes(program, passes))
    else:
        with step("compiling"):
            function = compile_program(program, target=target, debug=printer or "off", **chosen)
    with faults_of(emitter_class(target), "its program was called"):
        results = _call(function, arguments)
    if output is not None:
        with replacing(output, RESULTS) as temporary:
            write_results(temporary, results)
    _show([summary(value) for value in results], as_json)


def _call(function: Callable[..., Sequence[Any]], arguments: Sequence[Any]) -> Sequence[Any]:
    from wrapper_ir.cli.errors import InputsError
    from wrapper_ir.cli.reference import describe
    from wrapper_ir.errors import WrapperIRError

    try:
        return function(*arguments)
    except WrapperIRError:
        raise
    except (AssertionError, RuntimeError, TypeError, ValueError, IndexError) as error:
        # What the emitted module's own checks of its inputs raise.
        raise InputsError(reason=describe(error)) from error


def _show(summaries: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summaries, indent=2))
        return
    from rich.table import Table

    from wrapper_ir.cli.terminal import out

    table = Table("", "type", "shape", "min", "mean", "max")
    for number, about in enumerate(summaries):
        if "shape" in about:
            shape = "x".join(map(str, about["shape"])) or "scalar"
            numbers = [
                f"{about[key]:.5g}" if key in about else "" for key in ("min", "mean", "max")
            ]
        else:
            shape, numbers = str(about["value"]), ["", "", ""]
        table.add_row(f"{number}", about["type"], shape, *numbers)
    out().print(table)
