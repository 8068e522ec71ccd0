"""Conversion of Google-style docstrings to Markdown, with links for references to other names."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Link = Callable[[str], str]
    """Renders a name as Markdown: a link if it has an entry, else code."""

#: Sections whose parts are ``name: text``; the text of other sections is shown as it is.
_LISTS = ("Args", "Attributes", "Raises", "Warns")
_TEXTS = ("Returns", "Yields", "Note", "Example", "Examples")

_HEADING = re.compile(rf"({'|'.join((*_LISTS, *_TEXTS))}):\s*")
_ROLE = re.compile(r":(?:func|class|meth|attr|mod|data):`~?([\w.]+)`")
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
_PART = re.compile(r"(\*{0,2}[\w.]+)(?: \([^)]*\))?:(?:\s+|$)")
_TABLE_EDGE = re.compile(r"=+(?:  +=+)+")


def markdown(text: str, link: Link) -> str:
    """Convert a docstring to Markdown.

    Args:
        text: The docstring, with any indentation.
        link: Renders a name mentioned by a role (``:func:``).
    """
    paragraphs: list[str] = []
    for heading, body in _sections(inspect.cleandoc(text)):
        if heading:
            paragraphs.append(f"**{heading}**")
        if heading in _LISTS:
            named = link if heading in ("Raises", "Warns") else "`{}`".format
            paragraphs.append("\n".join(_parts(body, named, link)))
        else:
            paragraphs.append(prose(body, link))
    return "\n\n".join(filter(None, paragraphs))


def summary(text: str, link: Link) -> str:
    """Return the first sentence or line of a docstring, on one line."""
    first = inspect.cleandoc(text).split("\n\n")[0]
    return " ".join(prose(first, link).split()).removesuffix("::")


def documented(text: str, section: str) -> tuple[str, ...]:
    """Return the names that a section of a docstring describes, such as ``Args``."""
    for heading, body in _sections(inspect.cleandoc(text)):
        if heading == section:
            found = (_PART.match(line) for line in body.splitlines() if not line.startswith(" "))
            return tuple(match[1].lstrip("*") for match in found if match)
    return ()


def prose(text: str, link: Link) -> str:
    """Turn roles into links and escape everything outside code that would read as markup."""
    lines = [_line(line) for line in _fenced(text.splitlines())]
    pieces = _CODE.split(_ROLE.sub(lambda role: link(role[1]), "\n".join(lines)))
    # The odd parts are code. Outside code these characters would begin tags or emphasis.
    pieces[::2] = [re.sub(r"(?<!\*)\*(?=\w)", r"\\*", p).replace("<", "&lt;") for p in pieces[::2]]
    return "".join(pieces)


def _line(line: str) -> str:
    # Two colons begin a literal block; in Markdown the indentation is enough.
    return line[:-1] if line.endswith("::") and not line.startswith(" ") else line


def _fenced(lines: list[str]) -> Iterator[str]:
    """Yield lines, with tables fenced and lists separated from the text before them."""
    edges = 0
    previous = ""
    for line in lines:
        if _TABLE_EDGE.fullmatch(line):
            edges += 1
            yield f"    {line}"
        elif edges % 3:
            yield f"    {line}"
        else:
            if line.startswith("- ") and previous.strip() and not previous.startswith(("- ", "  ")):
                yield ""
            yield line
        previous = line


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield headings, the empty one first, with their dedented text."""
    heading, body = "", list[str]()
    for line in text.splitlines():
        match = _HEADING.fullmatch(line)
        if match:
            yield heading, _body(body)
            heading, body = match[1], []
        elif heading and line and not line.startswith(" "):
            yield heading, _body(body)
            heading, body = "", [line]
        else:
            body.append(line)
    yield heading, _body(body)


def _body(lines: list[str]) -> str:
    return inspect.cleandoc("\n" + "\n".join(lines)) if lines else ""


def _parts(body: str, named: Link, link: Link) -> Iterator[str]:
    """Yield the parts of a section as a list; ``named`` renders their names."""
    for line in body.splitlines():
        match = _PART.match(line)
        if match and not line.startswith(" "):
            yield f"- {named(match[1])}: {prose(line[match.end():], link)}"
        else:
            yield f"    {prose(line.strip(), link)}"
