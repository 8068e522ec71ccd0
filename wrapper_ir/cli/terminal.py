"""Terminal output: consoles, and the progress of long steps on standard error."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console


#: How long a step may take before it says that it goes on, and again (seconds).
SILENCE = 10.0

#: Columns of a stream that is no terminal: more than any table has.
_WIDEST = 1000


def out(*, color: bool = False) -> Console:
    """Return a console on standard output, as it is now (tests replace the stream).

    ``color`` asks for colours also where the output is no terminal.
    """
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False, force_terminal=True if color else None)
    return _unbounded(console)


def err() -> Console:
    """Return a console on standard error."""
    from rich.console import Console

    return _unbounded(Console(file=sys.stderr, highlight=False))


def _unbounded(console: Console) -> Console:
    """The console; one on no terminal is as wide as what it is given, unless ``COLUMNS`` says."""
    if not console.file.isatty() and not os.environ.get("COLUMNS"):
        console.width = _WIDEST
    return console


@contextlib.contextmanager
def step(what: str, *, animate: bool = True, log: bool = False) -> Iterator[None]:
    """Show that ``what`` is being done, then that it is done and how long it took.

    On a terminal a spinner turns. Elsewhere nothing is shown until it has taken long; or, with
    ``log``, a line, its end when the step ends. ``animate=False`` keeps the
    spinner's thread away from what is measured.
    """
    from rich.markup import escape

    what = escape(what)
    console = err()
    if not log and not console.is_terminal:
        with _patience(console, what):
            yield
        return
    start = time.perf_counter()
    spinner = console.status(f"{what} …") if animate and console.is_terminal else None
    if spinner is None:
        console.print(f"  {what} … ", end="", soft_wrap=True)
    try:
        with spinner or contextlib.nullcontext():
            yield
    except BaseException:
        console.print(f"[red]✗[/] {what}" if spinner else "failed")
        raise
    seconds = f"{time.perf_counter() - start:.1f} s"
    console.print(f"[green]✓[/] {what}  [dim]{seconds}[/]" if spinner else seconds)


@contextlib.contextmanager
def _patience(console: Console, what: str) -> Iterator[None]:
    """Say now and then that a step goes on, so that nobody takes it for dead."""
    over = threading.Event()
    start = time.perf_counter()

    def tell() -> None:
        while not over.wait(SILENCE):
            console.print(f"  {what} … {time.perf_counter() - start:.0f} s", soft_wrap=True)

    thread = threading.Thread(target=tell, name="wrapper_ir patience", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far ``what`` is; yield what is to be told of it: steps done, and all steps.

    On a terminal a bar grows; elsewhere it is a :func:`step`.
    """
    from rich.markup import escape

    console = err()
    if not console.is_terminal:
        with step(what):
            yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(escape(what), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[str], None]]:
    """Show a search; yield what is to be told of each try: what it found, or nothing.

    On a terminal the count and the last find stand beside a spinner; elsewhere finds are lines.
    """
    from rich.markup import escape

    console = err()
    tries = 0
    found = ""
    with contextlib.ExitStack() as stack:
        status = stack.enter_context(console.status(escape(what))) if console.is_terminal else None

        def tell(news: str) -> None:
            nonlocal tries, found
            tries, found = tries + 1, news or found
            shown = escape(f"{what}: {found or 'nothing yet'}, {tries} tried")
            if status is not None:
                status.update(shown)
            elif news:
                console.print(f"  {shown}", soft_wrap=True)

        yield tell


# Numbers of bytes and of seconds, as people write and read them.


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """Return the bytes that ``500M``, ``2GiB`` or ``1024`` mean, or None for anything else.

    A unit is a power of 1024, with or without the ``i``.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return int(float(match[1]) * _UNITS[match[2].upper()])


def human(size: int) -> str:
    """Return a number of bytes in the largest unit that leaves a number of at least one."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size:,} B" if unit == "B" else f"{value:,.1f} {unit}"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, three digits of it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError
