"""``wrapper-ir plan``: how much memory a program needs, and where it ends."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import examples, json_option, program_argument, traceback_option

if TYPE_CHECKING:
    from wrapper_ir.planning import PlanReport


@click.command(epilog=examples("""
wrapper-ir plan program.wir
wrapper-ir plan program.wir --strategy none --json | jq .peak_bytes
wrapper-ir plan program.wir -o planned.wir
"""))
@program_argument
@click.option("--strategy", default="reuse", show_default=True, metavar="NAME", help="How.")
@click.option("-o", "--output", metavar="PATH", help="Write the planned program (- is stdout).")
@json_option
@traceback_option
def plan(file: str, strategy: str, output: str | None, as_json: bool) -> None:
    """Plan a program's memory and report what the plan amounts to.

    A program that is planned already is reported as it is. With -o - the program goes to standard
    output and the report to standard error. Strategies: reuse, none.
    """
    from wrapper_ir.cli.files import read_program, save_program
    from wrapper_ir.planning import plan as plan_program

    done = plan_program(read_program(file, data=output not in (None, "-")), strategy)
    if output is not None:
        save_program(done.program, output)
    if as_json:
        data = dataclasses.asdict(done.report) | {"hints": dict(done.report.hints)}
        click.echo(json.dumps(data, indent=2), err=output == "-")
    else:
        _show(done.report, to_stderr=output == "-")


def _show(report: PlanReport, *, to_stderr: bool) -> None:
    from rich import box
    from rich.table import Table

    from wrapper_ir.cli.sizes import human
    from wrapper_ir.cli.terminal import err, out

    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    rows = (
        ("strategy", report.strategy, ""),
        ("buffers that own storage", f"{report.buffers:,}", ""),
        ("allocations", f"{report.allocations:,}", ""),
        ("reuses", f"{report.reuses:,}", ""),
        ("bytes of all buffers", human(report.total_bytes), "if nothing ever ended"),
        ("peak, frees alone", human(report.unplanned_peak_bytes), "each freed after its last use"),
        ("peak, planned", human(report.peak_bytes), f"{report.ratio:.3f} x the lower bound"),
        ("lower bound", human(report.lower_bound_bytes), "for these lines in this order"),
    )
    for row in rows:
        table.add_row(*row)
    console = err() if to_stderr else out()
    console.print(table)
    if report.hints:
        taken = ", ".join(f"{name} = {value}" for name, value in report.hints.items())
        guessed = f" (no hint, assumed: {', '.join(report.assumed)})" if report.assumed else ""
        console.print(f"at {taken}{guessed}", markup=False)
