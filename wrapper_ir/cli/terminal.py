"""Terminal output: consoles, the progress of long steps on standard error, programs in colour."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.text import Text


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


# Colours for the text form of programs.


_WORDS = (
    "wir|program|in_spec|out_spec|tangents|symbol|input|constant|buffer|kernel|extern|return|yield|allocate|"
    "free|reuse|reinterpret|allocate_pool|allocate_from_pool|call|compute|size|stride|"
    "storage_offset|item|assert|assert_layout|align|cond|while|stacked|with|probe|loc|then|else|"
    "condition|body|in|out|inout|alias|may_alias|donated|mutable|tied|stream|grid|"
    "event|mempool|user|after|record_event|wait_event|synchronize"
)

#: What each kind of word looks like; the sixteen colours of the terminal, so that any theme fits.
_STYLES = {
    "keyword": "bold blue",
    "buffer": "cyan",
    "callee": "green",
    "type": "magenta",
    "string": "yellow",
    "remark": "bright_black",
}

#: What each kind of word is; what is found later wins where two overlap.
_PATTERNS = (
    rf"(?<![\w%@$.:\"])(?P<keyword>{_WORDS})(?![\w.:])",
    r"(?<![\w%@$])(?P<type>(?:bf|f|i|u|c|qi|qui)\d\w*|bool)(?=[\[\s*,)])",
    r"(?P<buffer>%[A-Za-z_]\w*)",
    r"(?P<callee>@[A-Za-z_]\w*|\b[A-Za-z_]\w*::[A-Za-z_]\w*(?:\.\w+)?)",
    r'(?P<string>"(?:[^"\\]|\\.)*")',
    r"(?P<remark>^\s*//.*$|;.*$)",
)


def print_highlighted(text: str) -> None:
    """Print a program's text in colour; nothing is wrapped or cut."""
    from rich.theme import Theme

    console = out(color=True)
    theme = Theme({f"wir.{name}": style for name, style in _STYLES.items()})
    by_kind = itertools.groupby(text.splitlines(), key=lambda line: line.lstrip()[:1] == "|")
    with console.use_theme(theme):
        for is_source, lines in by_kind:
            for line in (_source if is_source else _lines)(list(lines)):
                console.print(line, soft_wrap=True)


def _lines(lines: list[str]) -> Iterator[Text]:
    from rich.text import Text

    for line in lines:
        coloured = Text(line)
        for pattern in _PATTERNS:
            coloured.highlight_regex(pattern, style_prefix="wir.")
        yield coloured


def _source(lines: list[str]) -> Iterator[Text]:
    """A kernel's source as C++, its margin dimmed."""
    from rich.syntax import Syntax
    from rich.text import Text

    margins = [line.partition("|")[0] + "|" for line in lines]
    code = "\n".join(line.removeprefix(margin) for line, margin in zip(lines, margins, strict=True))
    coloured = Syntax(code, "cpp", theme="ansi_dark").highlight(code).split("\n", allow_blank=True)
    for margin, line in zip(margins, coloured, strict=False):
        yield Text.assemble((margin, "bright_black"), line)
