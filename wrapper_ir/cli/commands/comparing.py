"""``wrapper-ir compare``: two folders of programs, as a table, as JSON, as a comment."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli import files as io
from wrapper_ir.cli.terminal import bar, out

if TYPE_CHECKING:
    from wrapper_ir.diffing import ProgramChange, SetDiff
    from wrapper_ir.lines import Program


@cli.command("""
wrapper-ir compare main/ branch/
wrapper-ir compare torch-2.14/ torch-2.15/ --structure
wrapper-ir compare main/ branch/ --format markdown --pages pages/ > comment.md
wrapper-ir compare main/ branch/ --format json | jq -r '.changes[].name'
""")
@click.argument("before", metavar="A/", type=click.Path(exists=True, file_okay=False))
@click.argument("after", metavar="B/", type=click.Path(exists=True, file_okay=False))
@click.option("--structure", is_flag=True, help="Compare only kernels, calls and their order.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["rich", "text", "json", "markdown"]),
    help="The form of the report. Default: rich on a terminal, text elsewhere.",
)
@cli.valued("--pages", "FOLDER", "Write a page of the explorer there for each that changed.")
@cli.valued("--url", "URL", "Where that folder will be found. Default: its own path.")
def compare(
    before: str,
    after: str,
    *,
    structure: bool,
    form: str | None,
    pages: str | None,
    url: str | None,
) -> None:
    """Compare the programs in two folders that have the same names: of two commits, say.

    The report counts what changed in each: kernels, calls, lines, checks, bytes. It says how to
    open the explorer: by a command, or with --pages by a link. The exit code is 0 if all programs
    are the same, 1 if some differ.
    """
    from wrapper_ir.diffing import SetDiff

    if url is not None and pages is None:
        raise click.UsageError("--url needs --pages")
    folders = Path(before), Path(after)
    names = sorted({_name(file, folder) for folder in folders for file in folder.rglob("*.wir")})
    if not names:
        raise click.UsageError("there is no .wir file in either folder")
    changes = []
    with bar("comparing") as progress:
        for number, name in enumerate(names, 1):
            change = _compared(name, folders, pages, url or pages, structure=structure)
            changes += [change] if change is not None else []
            progress(number, len(names))
    _show(SetDiff(len(names), tuple(changes)), form)
    sys.exit(1 if changes else 0)


def _name(file: Path, folder: Path) -> str:
    return file.relative_to(folder).with_suffix("").as_posix()


def _compared(
    name: str, folders: tuple[Path, Path], pages: str | None, url: str | None, *, structure: bool
) -> ProgramChange | None:
    """Compare two programs, and write the page if that is wanted."""
    from wrapper_ir.diffing import compare as compare_programs

    files = [folder / f"{name}.wir" for folder in folders]
    before, after = (io.read_program(str(f)) if f.is_file() else None for f in files)
    change = compare_programs(name, before, after, structure=structure)
    if change is None:
        return None
    there = [str(file) for file in files if file.is_file()]
    page = f"{Path(name).name}.html"
    command = shlex.join(["wrapper-ir", "explore", *there, "-o", page])
    if pages is None:
        return dataclasses.replace(change, command=command)
    _write_page(Path(pages, f"{name}.html"), [p for p in (before, after) if p is not None])
    return dataclasses.replace(change, command=command, page=f"{url}/{quote(name)}.html")


def _write_page(file: Path, programs: list[Program]) -> None:
    from wrapper_ir.explorer import PAGE, explore

    file.parent.mkdir(parents=True, exist_ok=True)
    io.write_text(str(file), explore(*programs).html, PAGE)


def _show(found: SetDiff, form: str | None) -> None:
    if form == "rich" or (form is None and sys.stdout.isatty()):
        from wrapper_ir.diffing.model import to_rich

        for line in to_rich(found.rows()):
            out(color=True).print(line, soft_wrap=True)
        return
    forms = {"json": found.to_json, "markdown": found.to_markdown}
    click.echo(forms.get(form or "text", found.to_text)(), nl=False)
