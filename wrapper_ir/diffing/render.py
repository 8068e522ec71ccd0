"""Rows of text, and three ways to show them: plain, on a terminal, and as a page of HTML."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text


@dataclass(frozen=True, slots=True)
class Row:
    """A line of what is shown; ``style`` names its role, which decides its colour."""

    text: str
    style: str = "plain"
    depth: int = 0


def to_text(rows: Iterable[Row]) -> str:
    """Return rows as plain text."""
    return "".join(f"{'  ' * row.depth}{row.text}".rstrip() + "\n" for row in rows)


#: The sixteen colours of the terminal, so that any theme fits.
_STYLES: Final = {
    "title": "bold",
    "heading": "bold blue",
    "added": "green",
    "removed": "red",
    "changed": "yellow",
    "moved": "cyan",
    "field": "",
    "place": "bright_black",
    "same": "bright_black",
    "plain": "",
}


def to_rich(rows: Iterable[Row]) -> Iterator[Text]:
    """Yield coloured lines for a terminal; nothing in them is taken for markup."""
    from rich.text import Text  # noqa: PLC0415 - only where it is shown

    for row in rows:
        yield Text("  " * row.depth + row.text, _STYLES[row.style])


_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 ui-monospace, monospace; margin: 2em; }}
div {{ white-space: pre-wrap; }}
.title, .heading {{ font-weight: bold; }}
.heading {{ color: #3b6ecc; }}
.added {{ color: #1a7f37; }}
.removed {{ color: #cf222e; }}
.changed {{ color: #9a6700; }}
.moved {{ color: #0b7285; }}
.place, .same {{ color: #7d8590; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def to_html(rows: Iterable[Row]) -> str:
    """Return a page that needs no other file; all text in it is escaped."""
    shown = list(rows)
    body = "\n".join(
        f'<div class="{row.style}" style="margin-left: {2 * row.depth}em">'
        f"{html.escape(row.text) or '&nbsp;'}</div>"
        for row in shown
    )
    return _PAGE.format(title=html.escape(shown[0].text if shown else "diff"), body=body)
