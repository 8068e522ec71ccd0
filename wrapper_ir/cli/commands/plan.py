"""From programs to plans: ``lower``, ``plan``, and ``plan-csv`` for a table of lifetimes."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli import files as io
from wrapper_ir.cli.terminal import duration, err, human, out, table_of
from wrapper_ir.options.declared import ARENA, STRATEGY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from wrapper_ir.emitters import Emitter
    from wrapper_ir.planning import Arena, OffsetPlan, PlanReport, PlanResult


#: The number of largest buffers shown at the peak.
_MOST: Final = 20

#: ``--target`` where one need not be given.
_target: Final = cli.target_option(
    "--target", None, "Run the passes that this emitter names, too; by default those of devices."
)


@cli.command("""
wrapper-ir lower program.wir
wrapper-ir lower program.wir --target cpp -O cuda_graph=true -o lowered.wir
wrapper-ir lower program.wir | wrapper-ir diff program.wir -
wrapper-ir lower program.wir --target python --planned
""")
@cli.program_argument
@_target
@cli.emitter_options
@click.option("--planned", is_flag=True, help="Plan it, too: show what the target renders.")
@cli.output_option("Write the program (- is stdout).", default=io.STREAM)
@cli.force_option
def lower(
    file: str, target: str | None, options: tuple[str, ...], planned: bool, output: str
) -> None:
    """Run the passes that the program's devices name, and a target, before memory is planned.

    `emit`, `export`, `run` and `plan` do so by themselves; this shows the result. A program that
    is planned stays as it is.
    """
    from wrapper_ir.passes import lower as lowered
    from wrapper_ir.passes import pipeline_for, run_passes

    emitter = _emitter(target, options)
    program = io.read_program(file, data=output != io.STREAM)
    if planned:
        program = run_passes(program, pipeline_for(program, emitter))
    else:
        program = lowered(program, emitter)
    io.save_program(program, output)


def _emitter(target: str | None, options: tuple[str, ...]) -> Emitter | None:
    from wrapper_ir.emitters import make_emitter

    if target is None and options:
        raise click.UsageError("-O needs --target")
    return None if target is None else make_emitter(target, io.check_target(target, options))


@cli.command("""
wrapper-ir plan program.wir
wrapper-ir plan program.wir --buffers
wrapper-ir plan program.wir --strategy pool --buffers --svg memory.svg
wrapper-ir plan program.wir --arena kept
wrapper-ir plan program.wir --target python -O cuda_graph=true
wrapper-ir plan program.wir --strategy none --json | jq .peak_bytes
wrapper-ir plan program.wir -o planned.wir
""")
@cli.program_argument
@cli.flag(
    *(STRATEGY, "--strategy"),
    metavar="NAME",
    help="reuse (the default; pool for kept arenas), pool or none.",
)
@cli.flag(ARENA, metavar="NAME")
@cli.output_option("Write the planned program (- is stdout).")
@cli.valued("--svg", "PATH", "Write a picture: time across, addresses up.")
@click.option(
    "--buffers",
    is_flag=True,
    help="Show the largest buffers held at the peak, and offsets in arenas.",
)
@click.option("--verify-each", is_flag=True, help="Check the plan with another algorithm.")
@_target
@cli.emitter_options
@cli.json_option
@cli.force_option
def plan(  # noqa: PLR0913 - one parameter per option
    file: str,
    strategy: str | None,
    arena: str,
    output: str | None,
    svg: str | None,
    target: str | None,
    options: tuple[str, ...],
    *,
    buffers: bool,
    verify_each: bool,
    as_json: bool,
) -> None:
    """Plan a program's memory and report on the plan.

    First, the program goes through the passes that its devices name, and --target (`lower` shows
    the result). A program that is already planned is reported unchanged. With -o - the program goes
    to standard output and the report to standard error. Strategies: reuse lets allocations take
    over freed storage, pool places buffers in arenas, none only frees. Kept arenas hold as many
    buffers as possible; `emit -O arena=kept` generates code that keeps them between calls.
    """
    from wrapper_ir.passes import legalisation_for, lower, run_passes
    from wrapper_ir.planning import picture
    from wrapper_ir.planning import plan as plan_program

    emitter = _emitter(target, options)
    program = lower(io.read_program(file, data=output not in (None, "-")), emitter)
    if emitter is not None and arena == ARENA.default:
        arena = emitter.arena
    done = plan_program(program, strategy, arena=arena)
    last = legalisation_for(done.program, emitter)
    program = run_passes(done.program, last, verify_each=verify_each)
    done = dataclasses.replace(done, program=program)
    if svg is not None:
        io.write_text(svg, picture(done.program), io.PICTURE)
    if output is not None:
        io.save_program(done.program, output)
    to_stderr = "-" in (output, svg)
    if as_json:
        data = dataclasses.asdict(done.report) | {"hints": dict(done.report.hints)}
        cli.echo_json(data, err=to_stderr)
    else:
        _show(done, buffers=buffers, to_stderr=to_stderr)


def _show(done: PlanResult, *, buffers: bool, to_stderr: bool) -> None:
    from rich import box
    from rich.table import Table

    report = done.report
    winner = "" if report.winner == report.strategy else f"won by {report.winner}"
    rows = [
        ("strategy", report.strategy, winner),
        ("buffers that own storage", f"{report.buffers:,}", ""),
        ("allocations", f"{report.allocations:,}", ""),
        ("reuses", f"{report.reuses:,}", ""),
        ("bytes of all buffers", human(report.total_bytes), "if nothing ever ended"),
        ("peak, frees alone", human(report.unplanned_peak_bytes), "each freed after its last use"),
        ("peak, planned", human(report.peak_bytes), f"{report.ratio:.3f} x the lower bound"),
        ("lower bound", human(report.lower_bound_bytes), "for these lines in this order"),
    ]
    if report.arena == "kept":
        rows.append(("kept between calls", human(report.kept_bytes), "for each call at a time"))
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    tables = [table]
    if report.at_peak:
        held = [(each.why.value, each.nbytes) for each in report.at_peak]
        tables.append(_by_reason(f"at the peak, {report.peak_at}", held))
        tables += [_largest(done)] if buffers else []
    if report.arenas:
        tables.append(_arenas(report))
    if report.outside:
        outside = [(each.reason, each.nbytes) for each in report.outside]
        tables.append(_by_reason("outside", outside))
    tables += map(_slices, report.arenas if buffers else ())
    console = err() if to_stderr else out()
    for table in tables:
        console.print(table)
    if report.hints:
        sizes = ", ".join(f"{name} = {value}" for name, value in report.hints.items())
        assumed = f" (no hint, assumed: {', '.join(report.assumed)})" if report.assumed else ""
        console.print(f"at {sizes}{assumed}", markup=False)


def _arenas(report: PlanReport) -> Table:
    table = table_of("arena", "on", numbers=("buffers", "bytes", "lower bound", "ratio"))
    table.add_column("placed by")
    for arena in report.arenas:
        ratio = arena.nbytes / arena.lower_bound if arena.lower_bound else 1.0
        sizes = (f"{len(arena.slices):,}", human(arena.nbytes), human(arena.lower_bound))
        by = arena.winner or "the program"
        table.add_row(f"%{arena.name}", arena.device, *sizes, f"{ratio:.4f}", by)
    return table


def _by_reason(title: str, storages: Sequence[tuple[str, int]]) -> Table:
    """Return the number of storages and their bytes for each reason, largest first."""
    table = table_of(title, numbers=("buffers", "bytes"))
    sums: dict[str, list[int]] = {}
    for reason, nbytes in storages:
        sums.setdefault(reason, []).append(nbytes)
    for reason, sizes in sorted(sums.items(), key=lambda each: -sum(each[1])):
        table.add_row(reason, f"{len(sizes):,}", human(sum(sizes)))
    return table


def _largest(done: PlanResult) -> Table:
    """Return the largest buffers held at the peak."""
    from rich.markup import escape

    from wrapper_ir.planning import Holding
    from wrapper_ir.text.printer import ItemPrinter

    printer, held = ItemPrinter(done.program, strict=False), done.report.at_peak
    table = table_of("held at the peak", "layout", numbers=("bytes",))
    table.add_column("why")
    for each in held[:_MOST]:
        row = ("", "")
        if each.why is not Holding.REGION:
            row = (printer.buffer(each.name), printer.layout_of(each.name))
        table.add_row(*map(escape, row), human(each.nbytes), each.why.value)
    if len(held) > _MOST:
        table.add_row(f"and {len(held) - _MOST:,} more")
    return table


def _slices(arena: Arena) -> Table:
    table = table_of("buffer", numbers=("offset", "bytes", "from line", "to line"))
    table.title, table.title_justify = f"%{arena.name}", "left"
    for piece in arena.slices:
        numbers = (piece.offset, piece.nbytes, piece.start, piece.end)
        table.add_row(f"%{piece.name}", *(f"{number:,}" for number in numbers))
    return table


@cli.command(
    """
wrapper-ir plan-csv buffers.csv -o planned.csv
wrapper-ir plan-csv buffers.csv -o planned.csv --capacity 1048576
wrapper-ir plan-csv - -o - < buffers.csv
""",
    "plan-csv",
)
@click.argument("file", metavar="IN.csv", shell_complete=cli.FILES)
@cli.output_option("Write the table here (- is stdout).", "OUT.csv", required=True)
@click.option("--alignment", type=click.IntRange(1), default=1, show_default=True, help="In bytes.")
@click.option("--capacity", type=click.IntRange(0), help="Fail if more bytes are needed.")
@cli.json_option
@cli.force_option
def plan_csv(
    file: str, output: str, *, alignment: int, capacity: int | None, as_json: bool
) -> None:
    """Assign an offset to each buffer of a table, so that buffers alive together do not overlap.

    The table is in MiniMalloc's format: columns lower and upper (half-open lifetimes) and size
    (bytes); other columns are kept, and a column offset is added. Progress and the summary go to
    standard error. The exit code is 1 if the plan needs more than --capacity.
    """
    from wrapper_ir.planning import assign_offsets, read_intervals, write_intervals

    table = read_intervals(io.read_text(file), "<stdin>" if file == "-" else file)
    start = time.perf_counter()
    progress = None if as_json else lambda text: click.echo(f"  {text}", err=True)
    plan = assign_offsets(table.intervals, alignment, progress=progress)
    seconds = time.perf_counter() - start
    io.write_text(output, write_intervals(table, plan.offsets), io.TABLE)
    _tell_offsets(plan, len(table.rows), seconds, as_json=as_json)
    if capacity is not None and plan.height > capacity:
        click.echo(f"{plan.height:,} bytes exceed the capacity of {capacity:,}", err=True)
        sys.exit(1)


def _tell_offsets(plan: OffsetPlan, buffers: int, seconds: float, *, as_json: bool) -> None:
    if as_json:
        keys = ("height", "lower_bound", "ratio", "winner")
        numbers = {key: getattr(plan, key) for key in keys}
        cli.echo_json({"buffers": buffers, **numbers}, err=True)
        return
    click.echo(
        f"{buffers:,} buffers in {plan.height:,} bytes, {plan.ratio:.4f} x the lower bound, "
        f"by {plan.winner or 'nothing'}, {duration(seconds)}",
        err=True,
    )
