"""``wrapper-ir explore``: a page that shows a program, and exports of it for other viewers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, Final

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli import files as io
from wrapper_ir.outputs import Kind, begins_with

_SNAPSHOT: Final = Kind("a snapshot of memory", begins_with(b"segments"))


@cli.command("""
wrapper-ir explore program.wir -o page.html
wrapper-ir explore before.wir after.wir -o changes.html
wrapper-ir explore program.wir -o page.html --target python --found run.jsonl --found bisect.json
wrapper-ir explore trace_dir -o page.html
wrapper-ir explore program.wir --json | jq '.programs[0].plans[] | .strategy, .peak_bytes'
wrapper-ir explore program.wir --perfetto trace.json --memory-viz memory.pickle
""")
@cli.program_argument
@click.argument("other", metavar="[B.wir]", required=False, shell_complete=cli.FILES)
@cli.output_option("Write the page (- is stdout).", "PAGE.html")
@cli.valued(
    *(
        "--target",
        "NAME",
        "An emitter whose text to show; may be repeated. Default: all.",
        "targets",
    ),
    multiple=True,
    shell_complete=cli.words(cli.targets),
)
@cli.valued(
    *(
        "--found",
        "FILE",
        "From run --record, --debug stats, bisect --json, validate --json; may be repeated.",
        "found",
    ),
    multiple=True,
    shell_complete=cli.FILES,
)
@cli.valued("--perfetto", "PATH", "Write calls, streams and memory as a Chrome trace (JSON).")
@cli.valued("--memory-viz", "PATH", "Write memory as torch's snapshots are: .pickle or .json.")
@click.option("--no-sources", is_flag=True, help="Read no files of the model.")
@cli.json_option
@cli.force_option
def explore(  # noqa: PLR0913 - one parameter per option
    file: str,
    other: str | None,
    output: str | None,
    targets: tuple[str, ...],
    found: tuple[str, ...],
    perfetto: str | None,
    memory_viz: str | None,
    *,
    no_sources: bool,
    as_json: bool,
) -> None:
    """Write a page that shows a program, or how two differ; it opens in any browser, offline.

    It ties together the model's source, its graph, the lines, the texts of emitters, kernels,
    memory and streams: what is chosen in one is marked in all others. --json prints everything that
    the page shows.

    In place of a program, a directory can be named that TORCH_TRACE has filled, with stock torch,
    too: the page then shows the model's source, graphs, Inductor's code and kernels.
    """
    from wrapper_ir.explorer import PAGE, explore_trace, memory_snapshot
    from wrapper_ir.explorer import explore as explored
    from wrapper_ir.explorer import perfetto as trace_of
    from wrapper_ir.explorer.events import TRACE

    if file == other == io.STREAM:
        raise click.UsageError("standard input holds one program, not two")
    kinds = [(output, PAGE), (perfetto, TRACE), (memory_viz, _SNAPSHOT)]
    _check_outputs(kinds, as_json=as_json)
    if Path(file).is_dir():
        if other or targets or found or perfetto or memory_viz:
            raise click.UsageError("logs are shown alone, with -o, --json and --no-sources")
        page = explore_trace(file, sources=not no_sources)
    else:
        programs = [io.read_program(each) for each in (file, other) if each is not None]
        page = explored(*programs, targets=targets or None, found=found, sources=not no_sources)
    if output is not None:
        io.write_text(output, page.html, PAGE)
    if perfetto is not None:
        text = json.dumps(trace_of(page.document.programs), separators=(",", ":"))
        io.write_text(perfetto, f"{text}\n", TRACE)
    if memory_viz is not None:
        _write_snapshot(memory_viz, memory_snapshot(page.document.programs[-1]))
    if as_json:
        click.echo(page.to_json(), nl=False)


def _check_outputs(kinds: list[tuple[str | None, Kind]], *, as_json: bool) -> None:
    paths = [path for path, _ in kinds]
    if not (any(paths) or as_json):
        raise click.UsageError("nothing to do: give -o, --json, --perfetto or --memory-viz")
    if paths.count(io.STREAM) + as_json > 1:
        raise click.UsageError("standard output takes one of them")
    for path, kind in kinds:
        io.check_output(path, kind)


def _write_snapshot(file: str, snapshot: dict[str, Any]) -> None:
    if Path(file).suffix != ".pickle":
        io.write_text(file, json.dumps(snapshot) + "\n", _SNAPSHOT)
        return
    with io.replacing(file, _SNAPSHOT) as temporary:
        temporary.write_bytes(pickle.dumps(snapshot))
