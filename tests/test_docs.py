"""What the documents show is what happens: their Python runs and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import warm

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_there_are_pages_and_the_readme_shows_code() -> None:
    assert ROOT / "README.md" in PAGES
    assert CODE.search((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if CODE.search(page.read_text("utf-8"))], ids=lambda p: p.stem
)
def test_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    # A file, not -c: Inductor and tracebacks read the source of the model they are given.
    script = tmp_path / f"{page.stem.replace('-', '_')}_code.py"
    script.write_text("\n".join(CODE.findall(page.read_text(encoding="utf-8"))), encoding="utf-8")
    done = warm.run(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = [t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    assert [target for target in targets if not (page.parent / target).exists()] == []
