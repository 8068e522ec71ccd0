"""``wrapper-ir review``: decides on snapshots that changed, those of one cause at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli.terminal import ask, out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.testing.grouping import Group
    from wrapper_ir.testing.pending import Pending

#: Key -> what it does, for the question.
_KEYS: Final = {
    "a": "accept",
    "r": "reject",
    "s": "skip",
    "e": "one by one",
    "n": "next example",
    "l": "list",
    "q": "quit",
}

#: Keys that make sense for a group of several changes.
_OF_SEVERAL: Final = ("e", "n", "l")

#: Files of a group that are named without being asked for.
_NAMED: Final = 3

#: Decisions: what is to be accepted, and what rejected.
Decisions: TypeAlias = "tuple[list[Pending], list[Pending]]"


@cli.command("""
wrapper-ir review
wrapper-ir review tests/test_net.py __snapshots__/test_net/test_net.wir
wrapper-ir review --accept
wrapper-ir review --json | jq '.[].changes[].file'
""")
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=cli.FILES)
@click.option("--accept", "decision", flag_value="accept", help="Accept all of them.")
@click.option("--reject", "decision", flag_value="reject", help="Reject all of them.")
@click.option("--list", "decision", flag_value="list", help="List them, and decide nothing.")
@cli.json_option
def review(paths: tuple[str, ...], decision: str | None, as_json: bool) -> None:
    """Decide on the snapshots that changed when tests ran last, here or in PATH.

    A failing test leaves its new text beside the snapshot. Changes that are alike are shown once
    and decided together. Without a terminal they are listed. The exit code is 1 if any are left.
    """
    from wrapper_ir.testing.grouping import grouped
    from wrapper_ir.testing.pending import pending_in

    for path in paths:
        if not Path(path).exists():
            raise click.UsageError(f"there is no {path!r}")
    pending = pending_in([Path(path) for path in paths or (".",)])
    groups = grouped(pending)
    is_asking = decision is None and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    chosen = _asked(groups) if is_asking else _all(pending, decision)
    _apply(chosen)
    left = len(pending) - sum(map(len, chosen))
    if as_json:
        cli.echo_json([_as_data(group) for group in groups])
    else:
        if not is_asking and decision in (None, "list"):
            _list(groups)
        _say(chosen, left)
    sys.exit(1 if left else 0)


def _all(pending: list[Pending], decision: str | None) -> Decisions:
    """Return the same decision on all changes."""
    return (
        pending if decision == "accept" else [],
        pending if decision == "reject" else [],
    )


def _apply(chosen: Decisions) -> None:
    from wrapper_ir.testing import pending

    accepted, rejected = chosen
    pending.reject(rejected)
    pending.accept(accepted)


def _say(chosen: Decisions, left: int) -> None:
    """Print what was done."""
    accepted, rejected = map(len, chosen)
    counts = {"accepted": accepted, "rejected": rejected, "left": left}
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    click.echo(said or "no snapshot waits for a decision")


def _list(groups: Iterable[Group]) -> None:
    for group in groups:
        click.echo(f"{group.title}:")
        click.echo("".join(f"  {each.place}\n" for each in group.changes), nl=False)


def _as_data(group: Group) -> dict[str, Any]:
    """Return a group for scripts, with the difference of each change."""

    def data(each: Pending) -> dict[str, Any]:
        kind = "new" if each.before is None else "changed"
        difference = [row.text for row in each.comparison.rows()]
        return {"file": each.place, "kind": kind, "target": each.target, "difference": difference}

    return {"title": group.title, "equal": group.equal, "changes": [*map(data, group.changes)]}


# Asking, with one key for an answer.


def _asked(groups: list[Group]) -> Decisions:
    """Show the groups one by one and return what is decided; nothing if it is interrupted."""
    from wrapper_ir.testing.grouping import Group

    chosen: Decisions = ([], [])
    waiting, total, number = list(groups), len(groups), 0
    while waiting:
        group = waiting.pop(0)
        number += 1
        key = _answer(group, f"[{number}/{total}]")
        if key == "q":
            break
        if key == "a":
            chosen[0].extend(group.changes)
        elif key == "r":
            chosen[1].extend(group.changes)
        elif key == "e":
            waiting[:0] = [Group((each,), equal=True) for each in group.changes]
            total += len(group.changes)
    return chosen


def _answer(group: Group, count: str) -> str:
    """Show a group and return the key of a decision."""
    example = 0
    keys = [key for key in _KEYS if key not in _OF_SEVERAL or len(group.changes) > 1]
    question = "  ".join(f"[{key}] {_KEYS[key]}" for key in keys)
    _show(group, example, count)
    while True:
        key = ask(f"\n{question} ? ").lower()
        click.echo(_KEYS[key] if key in keys else "")
        if key not in keys:
            continue
        if key == "l":
            _list([group])
        elif key == "n":
            example = (example + 1) % len(group.changes)
            _show(group, example, count)
        else:
            return key


def _show(group: Group, example: int, count: str) -> None:
    """Print a group: which files, and how one of them changed."""
    from wrapper_ir.diffing.model import to_rich

    console = out()
    shown = group.changes[example]
    console.print()
    console.print(f"{count} {group.title}", style="bold", markup=False)
    for line in _files(group, shown):
        console.print(f"  {line}", markup=False, soft_wrap=True)
    console.print()
    for text in to_rich(shown.comparison.rows()):
        console.print(text, soft_wrap=True)


def _files(group: Group, shown: Pending) -> Iterator[str]:
    others = [each.place for each in group.changes if each is not shown]
    yield from (shown.place, *others[: _NAMED - 1])
    if len(others) >= _NAMED:
        yield f"and {len(others) - _NAMED + 1} more"
