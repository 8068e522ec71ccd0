"""``wrapper-ir emit``: from a program to a target's text."""

from __future__ import annotations

import click

from wrapper_ir.cli.command import (
    examples,
    force_option,
    program_argument,
    target_options,
    traceback_option,
)


@click.command(epilog=examples("""
wrapper-ir emit program.wir -o wrapper.py --constants beside && python wrapper.py
wrapper-ir emit program.wir --target python -O origins=true | less
wrapper-ir emit program.wir --target cpp -o wrapper.cpp      # `export` builds a library of it
wrapper-ir emit program.wir --target fx                      # the graph, as readable Python
wrapper-ir print other.wir | wrapper-ir emit - --target python
"""))
@program_argument
@target_options("--target")
@click.option("-o", "--output", metavar="PATH", default="-", help="Where the text goes.")
@click.option(
    "--constants",
    type=click.Choice(["none", "beside"]),
    default="none",
    show_default=True,
    help="Where the values of constants go; beside: into a .safetensors file beside PATH.",
)
@force_option
@traceback_option
def emit(file: str, target: str, options: tuple[str, ...], output: str, constants: str) -> None:
    """Render a program. One whose memory is not planned yet is planned first.

    `wrapper-ir emitters` lists the targets and what -O may set. A module of Python that is run
    looks for its constants beside itself and makes them up where there are none.
    """
    from wrapper_ir.cli.emitting import check_target, render, write_module
    from wrapper_ir.cli.files import read_program

    beside = constants == "beside"
    if beside and "-" in (file, output):
        raise click.UsageError("--constants beside needs files, not standard input and output")
    chosen = check_target(target, options)
    program = read_program(file, data=beside)
    write_module(render(program, target, chosen), target, output, constants=beside)
