"""``wrapper-ir print``: the text of a program, coloured on a terminal."""

from __future__ import annotations

import sys

import click

from wrapper_ir.cli.command import examples, program_argument, traceback_option

#: How lines begin that --brief leaves out: sources of kernels, and how torch packs arguments.
_ASIDE = ("|", "in_spec ", "out_spec ")


@click.command(
    "print",
    epilog=examples("""
wrapper-ir print program.wir
wrapper-ir print program.wir --brief
wrapper-ir print program.wir --origins --color | less -R
wrapper-ir print - < program.wir > formatted.wir
"""),
)
@program_argument
@click.option("--origins", is_flag=True, help="Show where in the model each line comes from.")
@click.option("--brief", is_flag=True, help="Show the wrapper alone, no kernel sources.")
@click.option("--color/--no-color", default=None, help="Use colour or not. Default: on a terminal.")
@traceback_option
def show(file: str, origins: bool, brief: bool, color: bool | None) -> None:
    """Print a program in its normal form; the text reads back as the same program.

    Not so with --brief, which leaves out the sources of kernels and the structure of arguments.
    """
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.text import print_program

    text = print_program(read_program(file), origins=origins)
    if brief:
        kept = (line for line in text.splitlines(True) if not line.lstrip().startswith(_ASIDE))
        text = "".join(kept)
    if color is None:
        color = sys.stdout.isatty()
    if not color:
        click.echo(text, nl=not text.endswith("\n"))
        return
    from wrapper_ir.cli.highlight import print_highlighted

    print_highlighted(text)
