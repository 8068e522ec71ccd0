"""``wrapper-ir validate``: whether a program does what the graph of its model says."""

from __future__ import annotations

import sys

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli.files import read_program
from wrapper_ir.cli.terminal import step


@cli.command("""
wrapper-ir validate net.wir model.py:make
wrapper-ir validate net.wir model.py:make --random 0     # compares values, too
wrapper-ir validate net.wir model.py:make --json | jq '.faults[].message'
""")
@cli.program_argument
@click.argument("reference", metavar="MODULE:CALLABLE", shell_complete=cli.FILES)
@cli.args_option("Arguments of that model.")
@cli.frontend_option("The front end that made the program of that model.")
@cli.asking("given", cli.Inputs)
@click.option("--proved", is_flag=True, help="Exit with 1 also if something is not shown.")
@cli.json_option
def validate(  # noqa: PLR0913 - one parameter per option
    file: str,
    reference: str,
    args_reference: str | None,
    frontend: str,
    given: cli.Inputs,
    *,
    proved: bool,
    as_json: bool,
) -> None:
    """Compare a program with the graph of the model that it was made from.

    The model is captured again for its graph. Found are lines that read another value than the
    nodes take that they compute, or read it before or after a write that the graph orders
    otherwise; writes that are missing; and results that are not the graph's.

    With --inputs or --random the program is also interpreted, and its graph run op by op beside it;
    what calls write is compared, up to rounding.

    The exit code is 1 if something differs. What the program does not record is listed as not
    shown; it leaves the exit code at 0 without --proved.
    """
    from wrapper_ir.cli.graphs import graph_of
    from wrapper_ir.debugging import validate as compare

    if runs := given != cli.Inputs(None, None):
        given.check()
    program = read_program(file, data=True)
    values = given.read(program) if runs else None
    graph = graph_of(reference, args_reference, frontend)
    with step("comparing"):
        found = compare(program, graph, run=runs, inputs=values)
    if as_json:
        cli.echo_json(found.as_data())
    else:
        click.echo(str(found))
    sys.exit(0 if found.ok and not (proved and found.not_shown) else 1)
