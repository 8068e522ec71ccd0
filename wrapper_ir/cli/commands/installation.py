"""Commands about the installation: ``doctor``, ``prepare``, ``emitters``, ``cache``, ``corpus``."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli.terminal import aligned, bar, human, out, parse_size, step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wrapper_ir.testing.corpus import Coverage, Row


@cli.command("""
wrapper-ir doctor
wrapper-ir doctor > report.txt
wrapper-ir doctor --json | jq '.trials[] | select(.fault) | .name'
""")
@cli.json_option
def doctor(as_json: bool) -> None:
    """Examine the installation, and run a small program through every component.

    Shows versions and their standing (supported: the tests run with it; tried: it worked when tried
    by hand; untried; not supported), the cache, and whether the Inductor front end and each
    installed emitter give the same results as eager execution, bit for bit. The program is compiled
    anew each time, which takes half a minute. The exit code is 1 if something is wrong. The report
    is meant to be pasted into bug reports.
    """
    from wrapper_ir.cli.doctor import Report, cache_facts, gather, show
    from wrapper_ir.cli.trials import FRONT_END, run_trials
    from wrapper_ir.emitters import emitter_names

    cache = cache_facts()
    with bar("running a small program") as progress:
        torch, (imported, *trials) = run_trials([FRONT_END, *emitter_names()], progress)
    report = Report(gather(torch, imported.fault), cache, trials)
    if as_json:
        cli.echo_json(report.as_data())
    else:
        show(report)
    sys.exit(0 if report.is_well else 1)


# ``wrapper-ir prepare``: what a machine compiles once.


@cli.command("""
wrapper-ir prepare
WRAPPER_IR_CACHE_DIR=/opt/cache wrapper-ir prepare
""")
def prepare() -> None:
    """Compile what a machine compiles once, so that no first call has to.

    That is the headers of C++ kernels, the C++ runtime with the module that calls it and, where
    PyTorch is built for GPUs, the launcher of Triton kernels. It takes about 20 seconds, in an
    image of a container for instance. Without it the first call that needs a part starts to compile
    it in the background. All of it goes to the cache (see "wrapper-ir cache"); what is there stays
    as it is.
    """
    import torch

    from wrapper_ir.aot.load import make_module
    from wrapper_ir.devices import registered
    from wrapper_ir.runtime.triton import make_launcher, uses_launcher
    from wrapper_ir.toolchain import kernels

    parts: dict[str, Callable[[], object]] = {
        "headers of C++ kernels": partial(kernels.prepare, wait=True),
        "the C++ runtime": make_module,
    }
    built_for = [kind for kind in registered() if kind.doctor.inventory(torch).built_for]
    if any(map(uses_launcher, built_for)):
        parts["the launcher of Triton kernels"] = make_launcher
    for name, make in parts.items():
        start = time.perf_counter()
        with step(f"compiling {name}"):
            make()
        click.echo(f"{name}: {time.perf_counter() - start:.1f} s")


# ``wrapper-ir emitters``: the targets and their options.


@cli.command("""
wrapper-ir emitters
wrapper-ir emitters --json | jq -r '.[].name'
""")
@cli.json_option
def emitters(as_json: bool) -> None:
    """List the installed emitters with their options (-O key=value).

    Emitters are entry points of the group wrapper_ir.emitters; any package may provide one. One
    that cannot be loaded is listed with the reason.
    """
    from wrapper_ir.emitters import emitter_names

    descriptions = [_describe(name) for name in emitter_names()]
    if as_json:
        cli.echo_json(descriptions)
        return
    for about in descriptions:
        click.secho(about["name"], bold=True, nl=False)
        click.echo(f"  {about.get('error') or about['about']}")
        for option in about["options"]:
            default = f" (default: {option['default']})"
            click.echo(f"  -O {option['name']}={option['values']}{default}")
            if option["help"]:
                click.echo(f"       {option['help']}")


def _describe(name: str) -> dict[str, Any]:
    from wrapper_ir.emitters import emitter_class, options_of
    from wrapper_ir.errors import WrapperIRError

    try:
        emitter = emitter_class(name)
    except WrapperIRError as error:
        return {"name": name, "about": "", "error": error.message, "options": []}
    about = (emitter.__doc__ or "").strip().partition("\n")[0]
    options = [
        {"name": each.name, "values": each.takes, "default": each.default_text, "help": each.help}
        for each in options_of(emitter)
    ]
    return {"name": name, "about": about, "options": options}


# ``wrapper-ir cache``: the compiled kernels on disk.


def _bytes(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    size = None if value is None else parse_size(value)
    if value is not None and size is None:
        raise click.BadParameter(f"{value!r} is not a number of bytes such as 500M or 2GiB")
    return size


@click.group(
    cls=cli.Group,
    epilog=cli.examples("""
wrapper-ir cache show
wrapper-ir cache trim --max-bytes 500M
WRAPPER_IR_CACHE_DIR=/tmp/wir wrapper-ir cache clear
"""),
)
def cache() -> None:
    """Show, trim or clear the cache of compiled kernels.

    It is in $WRAPPER_IR_CACHE_DIR, or else in wrapper_ir in $XDG_CACHE_HOME or ~/.cache, and holds
    at most $WRAPPER_IR_CACHE_MAX_BYTES (2 GiB); the least recently used entries go first. Processes
    may share it. Clearing it only costs recompilations.
    """


@cli.command("wrapper-ir cache show\nwrapper-ir cache show --json | jq .entries", group=cache)
@cli.json_option
def show(as_json: bool) -> None:
    """Show where the cache is and how full it is."""
    from wrapper_ir.toolchain.cache import default_cache

    now = default_cache().stats()
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(now), default=str))
        return
    click.echo(f"directory  {now.directory}")
    click.echo(f"entries    {now.entries} ({now.libraries} libraries)")
    click.echo(f"size       {human(now.total_bytes)} of at most {human(now.max_bytes)}")


@cli.command("wrapper-ir cache trim\nwrapper-ir cache trim --max-bytes 500M", group=cache)
@cli.valued(
    *("--max-bytes", "BYTES"),
    "Keep at most this much, such as 500M. Default: the cache's own limit.",
    callback=_bytes,
)
def trim(max_bytes: int | None) -> None:
    """Remove the least recently used entries until the rest fits a limit."""
    from wrapper_ir.toolchain.cache import default_cache

    click.echo(f"removed {human(default_cache().trim(max_bytes))}")


@cli.command("wrapper-ir cache clear", group=cache)
def clear() -> None:
    """Remove everything."""
    from wrapper_ir.toolchain.cache import default_cache

    click.echo(f"removed {human(default_cache().clear())}")


# ``wrapper-ir corpus``: the programs that emitters are tested on, and what they cover.


def _corpus_names() -> Iterable[str]:
    from wrapper_ir.testing.corpus_files import corpus_files

    return corpus_files()


@cli.command("""
wrapper-ir corpus
wrapper-ir corpus --list
wrapper-ir corpus --target python --target cpp --json
wrapper-ir corpus while > while.wir
""")
@click.argument("name", required=False, shell_complete=cli.words(_corpus_names))
@click.option("--list", "as_list", is_flag=True, help="List the programs with their subjects.")
@cli.valued(
    *("--target", "NAME", "An emitter to count for; by default all installed ones.", "targets"),
    multiple=True,
    shell_complete=cli.words(cli.targets),
)
@cli.json_option
def corpus(name: str | None, as_list: bool, targets: tuple[str, ...], as_json: bool) -> None:
    """Show what the corpus covers: kinds of lines and element types, by emitter.

    The corpus is a set of small programs, each about one thing, that every emitter is tested on.
    With a NAME, that program is printed.
    """
    from wrapper_ir.errors import did_you_mean
    from wrapper_ir.testing.corpus_files import about, corpus_files

    if name is not None:
        file = corpus_files().get(name)
        if file is None:
            words = f"the corpus has no program '{name}'", did_you_mean(name, corpus_files())
            raise click.BadParameter("; ".join(filter(None, words)), param_hint="NAME")
        click.echo(file.read_text("utf-8"), nl=False)
        return
    subjects = {each: about(each) for each in corpus_files()}
    if not as_list:
        _show(targets, as_json=as_json)
    elif as_json:
        cli.echo_json(subjects)
    else:
        click.echo("\n".join(aligned([*subjects.items()])))


def _show(targets: Sequence[str], *, as_json: bool) -> None:
    from wrapper_ir.emitters import emitter_class, emitter_names
    from wrapper_ir.testing.corpus import coverage

    for target in targets:
        emitter_class(target)  # an unknown one is an error that lists the installed ones
    names = list(targets) or list(emitter_names())
    with bar("rendering the corpus") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of dtypes with limited support
        counted = coverage(names, progress=progress)
    if as_json:
        cli.echo_json(dataclasses.asdict(counted))
        return
    for title, rows in (("line", counted.lines), ("element type", counted.dtypes)):
        _table(title, rows, names)
    click.echo("Programs with such a line on such elements; after a slash, how many of them every")
    click.echo(f"emitter renders, unless all do: {', '.join(names)}\n")
    _grid(counted)


def _grid(counted: Coverage) -> None:
    """Print the number of programs for each kind of line (rows) and element type (columns)."""
    from wrapper_ir.lines import DType

    types = [row.name for row in counted.dtypes]
    lines = [["", *(DType.from_torch_name(name).short for name in types)]]
    for kind, rows in counted.cells.items():
        if rows:
            cells_of = {row.name: _cell(row) for row in rows}
            lines.append([kind, *(cells_of.get(name, ".") for name in types)])
    first, *widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for kind, *cells in lines:
        shown = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        click.echo(f"{kind:<{first}}  {' '.join(shown)}")


def _cell(row: Row) -> str:
    total, by_all = len(row.programs), min(row.rendered.values(), default=0)
    return f"{total}" if by_all == total else f"{total}/{by_all}"


def _table(title: str, rows: Sequence[Row], names: Sequence[str]) -> None:
    from rich.table import Table

    table = Table(title, "programs", *names)
    for row in rows:
        total = len(row.programs)
        table.add_row(row.name, str(total), *(f"{row.rendered[name]}/{total}" for name in names))
    out().print(table)
