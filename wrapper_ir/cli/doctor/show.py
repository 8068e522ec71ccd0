"""The report for people: tables on a terminal, lines that are never cut anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.cli.sizes import duration, human
from wrapper_ir.cli.terminal import out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from wrapper_ir.cli.doctor.report import Report

__all__ = ["show"]

#: Words for what is known of a part, and for how a trial went, with their colours.
_COLOURS = {
    **dict.fromkeys(("supported", "tried", "writable", "ok"), "green"),
    **dict.fromkeys(("untried", "refused"), "yellow"),
    **dict.fromkeys(("not supported", "missing", "not usable", "FAILED"), "red"),
}

Row = tuple[str, ...]


def show(report: Report) -> None:
    """Print the report to standard output."""
    data = report.as_data()
    tables = [list(_facts(data)), list(_cache(data["cache"])), list(_trials(data["trials"]))]
    console = out()
    for rows in filter(None, tables):
        if console.is_terminal:
            _table(console, rows)
        else:
            _lines(console, rows)
    _verdict(console, data)


def _facts(data: dict[str, Any]) -> Iterator[Row]:
    for fact in data["facts"]:
        standing = "missing" if fact["fault"] and not fact["version"] else fact["standing"]
        yield fact["name"], fact["version"] or "-", standing, fact["note"]


def _cache(cache: dict[str, Any]) -> Iterator[Row]:
    state = "writable" if cache["is_writable"] else "not usable"
    yield "cache", cache["directory"], state
    if cache["is_writable"]:
        size, most = human(cache["total_bytes"]), human(cache["max_bytes"])
        yield "", f"{cache['entries']:,} entries, {size} of at most {most}"
        yield "", f"{human(cache['free_bytes'])} of the disk are free"


def _trials(trials: list[dict[str, Any]]) -> Iterator[Row]:
    for each in trials:
        state = "FAILED" if each["fault"] else "refused" if each["refusal"] else "ok"
        yield each["name"], state, duration(each["seconds"]), each["refusal"]


def _table(console: Console, rows: list[Row]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False)
    for row in rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    console.print(table)


def _lines(console: Console, rows: list[Row]) -> None:
    width = [max(len(row[n]) for row in rows if n < len(row)) for n in range(max(map(len, rows)))]
    for row in rows:
        line = "  ".join(f"{cell:{width[n]}}" for n, cell in enumerate(row))
        console.print(line.rstrip(), markup=False, soft_wrap=True)
    console.print()


def _verdict(console: Console, data: dict[str, Any]) -> None:
    named = [(each["name"], each["fault"]) for each in (*data["facts"], *data["trials"])]
    faults = [(name, fault) for name, fault in (*named, ("cache", data["cache"]["fault"])) if fault]
    for name, fault in faults:
        code = f"{fault['code']}: " if fault["code"] else ""
        console.print(f"{name}: {code}{fault['message']}", markup=False, soft_wrap=True)
        if fault["hint"]:
            console.print(f"  hint: {fault['hint']}", markup=False, soft_wrap=True)
    if not data["trials"]:
        console.print("Nothing was run: that takes torch.")
    console.print("Something is wrong." if faults else "All is well.", style="bold")
