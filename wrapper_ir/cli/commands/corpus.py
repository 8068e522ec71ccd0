"""``wrapper-ir corpus``: the programs that emitters are held against, and what they cover."""

from __future__ import annotations

import dataclasses
import json
import warnings
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import examples, json_option, traceback_option
from wrapper_ir.cli.completion import CORPUS, TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.testing.corpus import Coverage, Row


@click.command(epilog=examples("""
wrapper-ir corpus
wrapper-ir corpus --list
wrapper-ir corpus --target python --target cpp --json
wrapper-ir corpus while > while.wir
"""))
@click.argument("name", required=False, shell_complete=CORPUS)
@click.option("--list", "as_list", is_flag=True, help="List the programs and what each is about.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="An emitter to count for; by default all that are installed.",
    shell_complete=TARGETS,
)
@json_option
@traceback_option
def corpus(name: str | None, as_list: bool, targets: tuple[str, ...], as_json: bool) -> None:
    """Show what the corpus covers: kinds of lines and types of elements, by emitter.

    The corpus is a set of small programs, each about one thing, that every emitter is tested with;
    with a NAME, that program is printed.
    """
    from wrapper_ir.errors import nearest
    from wrapper_ir.testing.corpus_files import about, corpus_files

    if name is not None:
        file = corpus_files().get(name)
        if file is None:
            close = nearest(name, corpus_files())
            hint = "" if close is None else f"; did you mean '{close}'?"
            message = f"the corpus has no program '{name}'{hint}"
            raise click.BadParameter(message, param_hint="NAME")
        click.echo(file.read_text("utf-8"), nl=False)
        return
    if as_list:
        found = {each: about(each) for each in corpus_files()}
        if as_json:
            click.echo(json.dumps(found, indent=2))
        else:
            width = max(map(len, found))
            click.echo("\n".join(f"{each:{width}}  {words}" for each, words in found.items()))
        return
    _show(targets, as_json=as_json)


def _show(targets: Sequence[str], *, as_json: bool) -> None:
    from wrapper_ir.cli.terminal import bar
    from wrapper_ir.emitters import emitter_class, emitter_names
    from wrapper_ir.testing.corpus import coverage

    for target in targets:
        emitter_class(target)  # an unknown one is an error, with the list of those there are
    names = list(targets) or list(emitter_names())
    with bar("rendering the corpus") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells of types it can only hold
        counted = coverage(names, progress=progress)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(counted), indent=2))
        return
    for title, rows in (("line", counted.lines), ("element type", counted.dtypes)):
        _table(title, rows, names)
    click.echo("programs with such a line on such elements; behind a slash, how many of them every")
    click.echo(f"emitter renders, where not all do: {', '.join(names)}\n")
    _grid(counted)


def _grid(counted: Coverage) -> None:
    """Kinds of lines down, types of elements across: the holes are where no program is."""
    from wrapper_ir.lines import DType

    types = [row.name for row in counted.dtypes]
    head = ["", *(DType.from_torch_name(name).short for name in types)]
    lines = [head]
    for kind, rows in counted.cells.items():
        if rows:
            found = {row.name: _cell(row) for row in rows}
            lines.append([kind, *(found.get(name, ".") for name in types)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for kind, *cells in lines:
        shown = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        click.echo(f"{kind:<{widths[0]}}  {' '.join(shown)}")


def _cell(row: Row) -> str:
    total, by_all = len(row.programs), min(row.rendered.values(), default=0)
    return f"{total}" if by_all == total else f"{total}/{by_all}"


def _table(title: str, rows: Sequence[Row], names: Sequence[str]) -> None:
    from rich.table import Table

    from wrapper_ir.cli.terminal import out

    table = Table(title, "programs", *names)
    for row in rows:
        total = len(row.programs)
        table.add_row(row.name, str(total), *(f"{row.rendered[name]}/{total}" for name in names))
    out().print(table)
