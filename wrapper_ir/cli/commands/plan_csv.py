"""``wrapper-ir plan-csv``: offsets for a table of lifetimes and sizes."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import examples, force_option, json_option, traceback_option
from wrapper_ir.cli.completion import files

if TYPE_CHECKING:
    from wrapper_ir.planning import OffsetPlan


@click.command(
    "plan-csv",
    epilog=examples("""
wrapper-ir plan-csv buffers.csv -o planned.csv
wrapper-ir plan-csv buffers.csv -o planned.csv --capacity 1048576
wrapper-ir plan-csv - -o - < buffers.csv
"""),
)
@click.argument("file", metavar="IN.csv", shell_complete=files(".csv"))
@click.option(
    "-o", "--output", required=True, metavar="OUT.csv", help="Where the table goes (- is stdout)."
)
@click.option("--alignment", type=click.IntRange(1), default=1, show_default=True, help="In bytes.")
@click.option("--capacity", type=click.IntRange(0), help="Capacity in bytes; fail beyond it.")
@click.option(
    "--nodes", type=click.IntRange(0), help="How far the exact search goes; the default is 2000000."
)
@json_option
@force_option
@traceback_option
def plan_csv(
    file: str,
    output: str,
    *,
    alignment: int,
    capacity: int | None,
    nodes: int | None,
    as_json: bool,
) -> None:
    """Give each buffer of a table an offset, so that those alive at one time do not overlap.

    The table is MiniMalloc's: columns lower, upper and size, half-open lifetimes and bytes; others
    are kept. What is written has a column offset besides. Progress and the summary go to standard
    error. The exit code is 1 if the plan needs more than --capacity.
    """
    from wrapper_ir.cli.files import TABLE, read_text, write_text
    from wrapper_ir.planning import NODES, assign_offsets, read_intervals, write_intervals

    table = read_intervals(read_text(file), "<stdin>" if file == "-" else file)
    start = time.perf_counter()
    plan = assign_offsets(
        table.intervals,
        alignment,
        nodes=NODES if nodes is None else nodes,
        progress=None if as_json else lambda text: click.echo(f"  {text}", err=True),
    )
    seconds = time.perf_counter() - start
    write_text(output, write_intervals(table, plan.offsets), TABLE)
    _tell(plan, len(table.rows), seconds, as_json=as_json)
    if capacity is not None and plan.height > capacity:
        click.echo(f"{plan.height:,} bytes are more than the capacity of {capacity:,}", err=True)
        sys.exit(1)


def _tell(plan: OffsetPlan, buffers: int, seconds: float, *, as_json: bool) -> None:
    import json

    from wrapper_ir.cli.sizes import duration

    if as_json:
        summary = {
            "buffers": buffers,
            "height": plan.height,
            "lower_bound": plan.lower_bound,
            "ratio": plan.ratio,
            "winner": plan.winner,
        }
        click.echo(json.dumps(summary, indent=2), err=True)
        return
    click.echo(
        f"{buffers:,} buffers in {plan.height:,} bytes, {plan.ratio:.4f} x the lower bound, "
        f"by {plan.winner or 'nothing'}, {duration(seconds)}",
        err=True,
    )
