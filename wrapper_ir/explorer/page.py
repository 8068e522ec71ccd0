"""The page: one HTML file with its data in it, which opens without a network.

``page.html`` is built from ``explorer/`` by ``make explorer``. It allows the scripts and styles in
it by their hashes and forbids everything else, so that no name in a program can become code. Data
is in elements that browsers do not run: gzip in base64, which has no sign that HTML knows.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir import outputs
from wrapper_ir.outputs import Kind, begins_with

if TYPE_CHECKING:
    import os

    from wrapper_ir.explorer.document import Document

PAGE: Final = Kind("an explorer page", begins_with(b"wrapper_ir explorer"))

#: Where the template has a place for data.
_PLACE: Final = "<!--wrapper_ir:data-->"

#: The parts of a program that a page reads when somebody wants to see them.
_LATER: Final = ("targets", "kernels", "plans")


def template() -> str:
    """Return the page without data."""
    return (files(__package__) / "page.html").read_text(encoding="utf-8")


class Page:
    """A page of :func:`wrapper_ir.explore`. Notebooks show it; :meth:`save` writes it."""

    def __init__(self, document: Document) -> None:
        #: Everything that the page shows.
        self.document = document

    @cached_property
    def html(self) -> str:
        """The text of the page."""
        before, place, after = template().partition(_PLACE)
        assert place, "the page has no place for data"
        return "".join((before, *_elements(self.document.as_data()), after))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all, and return its path."""
        return _written(Path(path), self.html)

    def to_json(self) -> str:
        """Return everything that the page shows as JSON; the format is in ``docs/explorer.md``."""
        return json.dumps(self.document.as_data(), separators=(",", ":")) + "\n"

    def _repr_html_(self) -> str:
        style = "width:100%;height:720px;border:1px solid #8888;border-radius:6px"
        shown = html.escape(self.html, quote=True)
        return (
            f'<iframe title="wrapper_ir explorer" sandbox="allow-scripts" style="{style}" '
            f'srcdoc="{shown}"></iframe>'
        )


def _written(path: Path, text: str) -> Path:
    with outputs.replacing(path, PAGE) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return path


def _elements(data: dict[str, Any]) -> list[str]:
    """Return the elements that hold the data: the parts that are shown first, then the others."""
    programs = data.pop("programs")
    later = [{part: program.pop(part) for part in _LATER} for program in programs]
    parts = {"main": {**data, "programs": programs}}
    for number, each in enumerate(later):
        parts |= {f"{part}-{number}": value for part, value in each.items()}
    return [_element(f"wir-{name}", part) for name, part in parts.items()]


def _element(name: str, part: object) -> str:
    raw = json.dumps(part, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate, which names may hold, has no form in UTF-8; browsers show the question mark.
    packed = gzip.compress(raw.encode("utf-8", "replace"), 6, mtime=0)
    text = base64.b64encode(packed).decode("ascii")
    return f'<script type="application/octet-stream" id="{name}">{text}</script>\n'
