"""An mkdocs hook for site pages stored outside ``docs``, and for links to and from them.

Besides README and the like, these are the reference pages generated from docstrings.

Links in the files work for readers of the repository; the hook rewrites them for the site. A link
to a file that has no page becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.pages import PAGES as REFERENCE
from api.pages import Reference
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

#: Reference pages; their links already fit the site.
MADE = {f"api/{name}.md" for name in ("index", *REFERENCE)}

ROOT = Path(__file__).resolve().parents[1]

#: Maps a repository file to its page.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
    "examples/deploy_cpp/README.md": "deploy-cpp.md",
}
_SOURCES = {page: source for source, page in PAGES.items()}

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages stored outside ``docs``."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised when torch is imported
        reference = Reference().pages()
    for name, text in reference.items():
        files.append(File.generated(config, f"api/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page."""
    here = page.file.src_uri
    if here in MADE:
        return markdown
    source = _SOURCES.get(here, f"docs/{here}")

    def turned(match: re.Match[str]) -> str:
        text, link, anchor = match[1], match[2], match[3] or ""
        if "://" in link:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if path in PAGES:
            goal = PAGES[path]
        elif path.startswith("docs/"):
            goal = path.removeprefix("docs/")
        else:
            return text
        return f"[{text}]({posixpath.relpath(goal, posixpath.dirname(here) or '.')}{anchor})"

    return _LINK.sub(turned, markdown)
