"""A hook of mkdocs: the pages of the site that lie outside of ``docs``, and links to and from them.

Besides README and its like, these are the pages of the reference, which are made from docstrings.

On disk links are such as a reader of the files can follow; here they are turned to where the pages
are in the site. A link to a file that is no page becomes its text.
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

#: The pages of the reference have links as they are in the site.
MADE = {f"api/{name}.md" for name in ("index", *REFERENCE)}

ROOT = Path(__file__).resolve().parents[1]

#: A file of the repository -> its page.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
    "examples/deploy_cpp/README.md": "deploy-cpp.md",
}
_SOURCES = {page: source for source, page in PAGES.items()}

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch's, when it is imported
        reference = Reference().pages()
    for name, text in reference.items():
        files.append(File.generated(config, f"api/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of a page."""
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
