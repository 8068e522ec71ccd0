"""``wrapper-ir diff``: what is not the same in two programs, or in what is emitted for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import emitter_options, examples, traceback_option
from wrapper_ir.cli.completion import PROGRAMS, TARGETS_AND_IR

if TYPE_CHECKING:
    from wrapper_ir.diffing import ProgramDiff, SourceDiff
    from wrapper_ir.lines import Program

_TROUBLE = 2


@click.command(epilog=examples("""
wrapper-ir diff before.wir after.wir
wrapper-ir diff before.wir after.wir --target python | less
wrapper-ir diff before.wir after.wir --format html > diff.html
wrapper-ir print new.wir | wrapper-ir diff old.wir - --format json | jq .lines
wrapper-ir diff golden.wir now.wir > /dev/null || echo they differ
"""))
@click.argument("before", metavar="A.wir", shell_complete=PROGRAMS)
@click.argument("after", metavar="B.wir", shell_complete=PROGRAMS)
@click.option(
    "--target",
    default="ir",
    show_default=True,
    metavar="NAME",
    help="ir, or an emitter: compare what it writes.",
    shell_complete=TARGETS_AND_IR,
)
@emitter_options()
@click.option(
    "--format",
    "form",
    type=click.Choice(["rich", "text", "json", "html"]),
    help="Output format. Default: rich on a terminal, else text.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@traceback_option
def diff(before: str, after: str, target: str, options: tuple[str, ...], form: str | None) -> None:
    """Compare two programs by meaning: names and origins do not count.

    Lines are matched by what they do; those that stand elsewhere are shown as moved, and of those
    that have changed, what has. The exit code is 0 when the programs are the same, 1 when they
    differ, 2 when something is wrong with a file.
    """
    from wrapper_ir.cli.emitting import check_target
    from wrapper_ir.cli.files import STREAM, read_program
    from wrapper_ir.diffing import diff as diff_programs

    if before == after == STREAM:
        raise click.UsageError("standard input holds one program, not two")
    if target == "ir" and options:
        raise click.UsageError("-O needs --target")
    chosen = {} if target == "ir" else check_target(target, options)
    a, b = read_program(before), read_program(after)
    found = diff_programs(a, b) if target == "ir" else _sources(a, b, target, chosen)
    _show(found, form or ("rich" if sys.stdout.isatty() else "text"))
    sys.exit(1 if found else 0)


def _sources(a: Program, b: Program, target: str, options: dict[str, object]) -> SourceDiff:
    """Compare what is emitted, the first program under the second's names."""
    from wrapper_ir.cli.emitting import render
    from wrapper_ir.diffing import aligned, diff_sources
    from wrapper_ir.verify import VerificationError

    try:
        texts = [render(program, target, options).source for program in (aligned(a, b), b)]
    except VerificationError as error:
        click.echo(str(error), err=True)  # its exit code would else say that the programs differ
        sys.exit(_TROUBLE)
    return diff_sources(texts[0], texts[1], target)


def _show(found: ProgramDiff | SourceDiff, form: str) -> None:

    if form == "rich":
        from wrapper_ir.cli.terminal import out
        from wrapper_ir.diffing.render import to_rich

        console = out(color=True)
        for line in to_rich(found.rows()):
            console.print(line, soft_wrap=True)
        return
    texts = {"text": found.to_text, "json": found.to_json, "html": found.to_html}
    text = texts[form]()
    click.echo(text, nl=not text.endswith("\n"))
