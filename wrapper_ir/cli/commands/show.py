"""``print``: the text of a program, coloured on a terminal. ``upgrade``: that of old files."""

from __future__ import annotations

import sys

import click

from wrapper_ir.cli.command import examples, program_argument, traceback_option
from wrapper_ir.cli.completion import PROGRAMS

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


@click.command(epilog=examples("""
wrapper-ir upgrade tests/*.wir
wrapper-ir upgrade --check tests/*.wir
wrapper-ir upgrade - < old.wir > new.wir
"""))
@click.argument("files", metavar="FILE.wir...", nargs=-1, required=True, shell_complete=PROGRAMS)
@click.option("--check", is_flag=True, help="Write nothing; the exit code is 1 if a file is old.")
@traceback_option
def upgrade(files: tuple[str, ...], check: bool) -> None:
    """Rewrite programs of older versions of the text form, in place; - goes to standard output.

    Remarks, indentation and empty lines stay as they are, and so do the constants beside a file.
    Files are read in any case; only what other tools or people read needs this. A file that is no
    program ends the command before any is written.
    """
    from wrapper_ir.cli.files import STREAM, read_text, write_text
    from wrapper_ir.text import parse
    from wrapper_ir.text import upgrade as upgrade_text
    from wrapper_ir.text.files import PROGRAM

    found = []
    for file in files:
        text = read_text(file)
        parse(text, source_name="<stdin>" if file == STREAM else file)
        found.append((file, text, upgrade_text(text)))
    old = [(file, new) for file, text, new in found if new != text or file == STREAM]
    if check:
        click.echo("".join(f"{file}\n" for file, text, new in found if new != text), nl=False)
        sys.exit(any(new != text for _, text, new in found))
    for file, new in old:
        write_text(file, new, PROGRAM, in_place=True)
        if file != STREAM:
            click.echo(f"upgraded {file}", err=True)
