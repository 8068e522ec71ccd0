"""Terminal output: consoles, progress on standard error, and programs in colour."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


#: Seconds between messages of a long step that it is still running.
SILENCE = 10.0

#: What Ctrl-C and Ctrl-D send.
_INTERRUPT: Final = "\x03"
_END: Final = "\x04"

#: The width of a stream that is not a terminal, in columns: wider than any table.
_WIDEST = 1000


def out(*, color: bool = False) -> Console:
    """Return a console on the current standard output; ``color`` forces colours."""
    return _console(sys.stdout, force_terminal=True if color else None)


def err() -> Console:
    """Return a console on standard error."""
    return _console(sys.stderr)


def _console(stream: TextIO, *, force_terminal: bool | None = None) -> Console:
    """Return a console that, if not on a terminal and without ``COLUMNS``, never wraps a table."""
    from rich.console import Console

    is_unbounded = not stream.isatty() and not os.environ.get("COLUMNS")
    width = _WIDEST if is_unbounded else None
    return Console(file=stream, highlight=False, force_terminal=force_terminal, width=width)


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Show that ``what`` is in progress, then that it is done and how long it took.

    On a terminal this is a spinner. Elsewhere nothing is shown until the step has taken long.
    """
    from rich.markup import escape

    what = escape(what)
    console = err()
    if not console.is_terminal:
        with _patience(console, what):
            yield
        return
    start = time.perf_counter()
    try:
        with console.status(f"{what} …"):
            yield
    except BaseException:
        console.print(f"[red]✗[/] {what}")
        raise
    console.print(f"[green]✓[/] {what}  [dim]{time.perf_counter() - start:.1f} s[/]")


@contextlib.contextmanager
def _patience(console: Console, what: str) -> Iterator[None]:
    """Print from time to time that a step is still running, so that nobody takes it for dead."""
    done = threading.Event()
    start = time.perf_counter()

    def report() -> None:
        while not done.wait(SILENCE):
            console.print(f"  {what} … {time.perf_counter() - start:.0f} s", soft_wrap=True)

    thread = threading.Thread(target=report, name="wrapper_ir patience", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of ``what``; yield a function to call with the steps done and in total.

    On a terminal this is a progress bar, elsewhere a :func:`step`.
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
    """Show a search; yield a function to call after each try with its result, or an empty string.

    On a terminal this is a spinner; elsewhere each result is printed on a line.
    """
    from rich.markup import escape

    console = err()
    tries = 0
    last = ""
    with contextlib.ExitStack() as stack:
        status = stack.enter_context(console.status(escape(what))) if console.is_terminal else None

        def report(result: str) -> None:
            nonlocal tries, last
            tries, last = tries + 1, result or last
            text = escape(f"{what}: {last or 'nothing yet'}, {tries} tried")
            if status is not None:
                status.update(text)
            elif result:
                console.print(f"  {text}", soft_wrap=True)

        yield report


def ask(question: str) -> str:
    """Print a question on the terminal, and return the key that answers it; Enter is not needed.

    A key that sends several characters, such as an arrow, comes as one word.

    Raises:
        KeyboardInterrupt: It was Ctrl-C, or there are no more keys.
    """
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)  # before the question: no key is lost
        # Ctrl-C is a key as well: a signal just before the read would not end the read.
        mode = termios.tcgetattr(terminal)
        mode[6][termios.VINTR] = b"\0"  # no character stands for it
        termios.tcsetattr(terminal, termios.TCSADRAIN, mode)
        click.echo(question, nl=False)
        key = os.read(terminal, 32).decode(errors="replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    if key in ("", _END) or _INTERRUPT in key:
        raise KeyboardInterrupt
    return key


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines of text, with cells padded to the width of their columns."""
    columns = itertools.zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    for row in rows:
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=False))
        yield "  ".join(cells).rstrip()


def table_of(*text: str, numbers: Sequence[str]) -> Table:
    """Return a table with columns of text and then of numbers, which are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(*text, box=box.SIMPLE_HEAD)
    for title in numbers:
        table.add_column(title, justify="right")
    return table


# Sizes in bytes and times in seconds, in readable units.


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """Parse ``500M``, ``2GiB`` or ``1024`` into a number of bytes; return None for anything else.

    Units are powers of 1024, with or without the ``i``.
    """
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(float(match[1]) * _UNITS[match[2].upper()])


def human(size: int) -> str:
    """Format a number of bytes in the largest unit of which there is at least one."""
    for unit in ("T", "G", "M", "K"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:,.1f} {unit}iB"
    return f"{size:,} B"


def duration(seconds: float) -> str:
    """Format a time with three digits, in seconds, milliseconds or microseconds."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


# Colours for the text form of programs.


#: Words outside lines: a program's header, and how results relate to arguments.
_HEADER_WORDS = ("alias", "in_spec", "may_alias", "out_spec", "tangents", "unread")

#: Kind of word -> its style. Only the terminal's sixteen colours are used, to suit any theme.
_STYLES = {
    "keyword": "bold blue",
    "buffer": "cyan",
    "callee": "green",
    "type": "magenta",
    "string": "yellow",
    "remark": "bright_black",
}


@functools.cache
def _patterns() -> tuple[str, ...]:
    """Return the pattern of each kind of word; later ones win where two overlap.

    Keywords are the words in the declared syntax of lines and their parts, and those that symbols
    may not be called.
    """
    from wrapper_ir import lines
    from wrapper_ir.text.words import DTYPES, RESERVED

    syntaxes = (getattr(each, "syntax", None) for each in vars(lines).values())
    declared = " ".join(re.sub(r"{[^{}]*}", " ", each) for each in syntaxes if type(each) is str)
    words = {*re.findall(r"[a-z_]{2,}", declared), *RESERVED, *_HEADER_WORDS} - DTYPES.keys()
    return (
        rf"(?<![\w%@$.:\"])(?P<keyword>{'|'.join(sorted(words))})(?![\w.:])",
        r"(?<![\w%@$])(?P<type>(?:bf|f|i|u|c|qi|qui)\d\w*|bool)(?=[\[\s*,)])",
        r"(?P<buffer>%[A-Za-z_]\w*)",
        r"(?P<callee>@[A-Za-z_]\w*|\b[A-Za-z_]\w*::[A-Za-z_]\w*(?:\.\w+)?)",
        r'(?P<string>"(?:[^"\\]|\\.)*")',
        r"(?P<remark>^\s*//.*$|;.*$)",
    )


def print_highlighted(text: str) -> None:
    """Print a program's text in colour, without wrapping or cutting lines."""
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
        for pattern in _patterns():
            coloured.highlight_regex(pattern, style_prefix="wir.")
        yield coloured


def _source(lines: list[str]) -> Iterator[Text]:
    """Colour a kernel's source as C++, and dim its margin."""
    from rich.syntax import Syntax
    from rich.text import Text

    margins = [line.partition("|")[0] + "|" for line in lines]
    code = "\n".join(line.removeprefix(margin) for line, margin in zip(lines, margins, strict=True))
    coloured = Syntax(code, "cpp", theme="ansi_dark").highlight(code).split("\n", allow_blank=True)
    for margin, line in zip(margins, coloured, strict=False):
        yield Text.assemble((margin, "bright_black"), line)
