"""Colours for the text form on a terminal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

from rich.highlighter import RegexHighlighter
from rich.syntax import Syntax
from rich.text import Text

from wrapper_ir.cli.terminal import out

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class _WirHighlighter(RegexHighlighter):
    """Finds the words of the text form; what is found later wins where two overlap."""

    highlights: ClassVar[list[str]] = [
        rf"(?<![\w%@$.:\"])(?P<keyword>{_WORDS})(?![\w.:])",
        r"(?<![\w%@$])(?P<type>(?:bf|f|i|u|c|qi|qui)\d\w*|bool)(?=[\[\s*,)])",
        r"(?P<buffer>%[A-Za-z_]\w*)",
        r"(?P<callee>@[A-Za-z_]\w*|\b[A-Za-z_]\w*::[A-Za-z_]\w*(?:\.\w+)?)",
        r'(?P<string>"(?:[^"\\]|\\.)*")',
        r"(?P<remark>^\s*//.*$|;.*$)",
    ]
    base_style = "wir."


def print_highlighted(text: str) -> None:
    """Print a program's text in colour; nothing is wrapped or cut."""
    from rich.theme import Theme

    console = out(color=True)
    theme = Theme({f"wir.{name}": style for name, style in _STYLES.items()})
    with console.use_theme(theme):
        for line in _coloured(text):
            console.print(line, soft_wrap=True)


def _coloured(text: str) -> Iterator[Text]:
    highlight = _WirHighlighter()
    by_kind = itertools.groupby(text.splitlines(), key=lambda line: line.lstrip()[:1] == "|")
    for is_source, lines in by_kind:
        if is_source:
            yield from _source(list(lines))
        else:
            yield from map(highlight, lines)


def _source(lines: list[str]) -> Iterator[Text]:
    """A kernel's source as C++, its margin dimmed."""
    margins = [line.partition("|")[0] + "|" for line in lines]
    code = "\n".join(line.removeprefix(margin) for line, margin in zip(lines, margins, strict=True))
    coloured = Syntax(code, "cpp", theme="ansi_dark").highlight(code).split("\n", allow_blank=True)
    for margin, line in zip(margins, coloured, strict=False):
        yield Text.assemble((margin, "bright_black"), line)
