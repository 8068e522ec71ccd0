"""``wrapper-ir demo``: a small transformer through everything."""

from __future__ import annotations

import json
from pathlib import Path

import click

from wrapper_ir.cli.command import examples, force_option, json_option, traceback_option


@click.command(epilog=examples("""
wrapper-ir demo
wrapper-ir demo -o /tmp/demo --layers 8 --threads 4
wrapper-ir demo --layers 1 --quick --json
"""))
@click.option(
    "-o",
    "--output",
    "out",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where program.wir and wrapper.py go. Default: here.",
)
@click.option("--layers", type=click.IntRange(1, 64), default=4, show_default=True, help="Depth.")
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="CPU threads; one thread shows best what wrappers cost.",
)
@click.option("--quick", is_flag=True, help="Time a few calls only.")
@json_option
@force_option
@traceback_option
def demo(out: Path, layers: int, threads: int, quick: bool, as_json: bool) -> None:
    """Compile, train and run a small transformer, and compare with eager and stock Inductor.

    A decoder with random weights (examples/decoder.py) is trained one step and run by eager, by
    torch.compile with stock Inductor and by torch.compile with backend="wrapper_ir", from equal
    weights. Then it is exported, captured as one program, verified, planned and emitted. Takes a
    minute or two the first time: kernels are compiled for both compilers.
    """
    from wrapper_ir.cli.demo.report import farewell, show
    from wrapper_ir.cli.demo.story import Plan, tell
    from wrapper_ir.cli.terminal import out as console

    out.mkdir(parents=True, exist_ok=True)
    report = tell(Plan(out, layers=layers, rounds=5 if quick else 30, threads=threads))
    if as_json:
        click.echo(json.dumps(report.as_data(), indent=2))
        return
    show(report, console())
    farewell(report, console())
