"""Several ranks: whether their programs fit together, and which one first went another way."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli.errors import FileError
from wrapper_ir.cli.files import STREAM, read_program, read_text
from wrapper_ir.cli.terminal import step

if TYPE_CHECKING:
    from wrapper_ir.verify.ranks.deadlock import Blocking


@cli.command("""
wrapper-ir verify-ranks rank0.wir rank1.wir
wrapper-ir verify-ranks rank*.wir --groups groups.json --json | jq '.problems[].message'
wrapper-ir verify-ranks shared.wir --ranks 8
""")
@cli.programs_argument
@click.option(
    "--ranks",
    type=click.IntRange(min=1),
    help="How many ranks share the one program that is given.",
)
@cli.valued(
    *("--groups", "FILE.json", "The ranks of each process group, by name."),
    shell_complete=cli.FILES,
)
@cli.choice(
    *("--blocking", ("start", "wait")),
    "When a collective holds its rank: at once, as NCCL may, or in its wait, as gloo.",
)
@click.option("--proved", is_flag=True, help="Exit with 1 also if something is not shown.")
@cli.json_option
def verify_ranks(
    files: tuple[str, ...],
    ranks: int | None,
    groups: str | None,
    blocking: Blocking,
    proved: bool,
    as_json: bool,
) -> None:
    """Compare the programs of several ranks, given in the order of ranks, before they run.

    Found are ranks that call collectives in different orders, or with different ops, element
    types, sizes, reductions, roots or peers, and ranks that would wait for each other. The file of
    --groups holds {"tp": [0, 1], ...} for all groups; without it, a group has all ranks, or those
    that use it if its calls state their number.

    The exit code is 1 if ranks do not fit together and 2 if a file is not a program. What the
    programs do not tell is reported as not shown; it leaves the exit code at 0 without --proved.
    """
    from wrapper_ir.verify.ranks import verify_ranks as compare

    if ranks is not None and len(files) != 1:
        raise click.UsageError("--ranks goes with one program")
    if files.count(STREAM) > 1:
        raise click.UsageError("standard input holds one program")
    programs = [read_program(file) for file in files] * (ranks or 1)
    given = None if groups is None else _groups(groups)
    report = compare(programs, groups=given, blocking=blocking)
    if as_json:
        cli.echo_json(report.as_data())
    else:
        click.echo(str(report))
    sys.exit(0 if report.ok and (report.proved or not proved) else 1)


def _groups(file: str) -> dict[str, list[int] | list[list[int]]]:
    """Read the ranks of groups."""
    try:
        found: dict[str, list[int] | list[list[int]]] = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        reason = f"it is not JSON: {error}"
        raise FileError(verb="read", file=repr(file), reason=reason) from error
    return found


@cli.command("""
wrapper-ir bisect-ranks bad good             # compares bad.rank0 with good.rank0, and so on
wrapper-ir bisect-ranks bad.rank1 good.rank1
wrapper-ir bisect-ranks bad good --tolerance 1e-4 1e-6 --json
""")
@click.argument("run", metavar="NAME")
@click.argument("other", metavar="OTHER")
@cli.valued(
    *("--tolerance", "RELATIVE ABSOLUTE", "Tolerance for values."),
    nargs=2,
    type=click.FloatRange(min=0.0),
)
@cli.json_option
def bisect_ranks(
    run: str, other: str, tolerance: tuple[float, float] | None, as_json: bool
) -> None:
    """Compare two saved runs of several ranks, and name the rank and the call that differ first.

    The runs are what ranks save with WRAPPER_IR_DEBUG=save and WRAPPER_IR_DEBUG_DIR=NAME, in the
    folders NAME.rank0, NAME.rank1 and so on. What is wrong on one rank reaches others through
    collectives, so the first rank is the one that had waited for the fewest when it differed.

    The exit code is 1 if a difference is found.
    """
    from wrapper_ir.debugging import bisect_ranks as find

    with step("comparing"):
        found = find(run, other, tolerance or (0.0, 0.0))
    if as_json:
        cli.echo_json(found.as_data())
    else:
        click.echo(str(found))
    sys.exit(1 if found else 0)
