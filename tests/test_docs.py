"""What the documents show is what happens: each block of code is tried, links lead somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests import warm
from tests.pages import PAGES, ROOT, Block, agrees, blocks, script, steps, tour
from tools import option_table
from wrapper_ir.cli.app import COMMANDS, main
from wrapper_ir.emitters import options_of
from wrapper_ir.emitters.python import PythonEmitter

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
README = ROOT / "README.md"

#: A reader copies one of them, so each is a script of its own; the fourth is run by a command.
QUICKSTARTS = [
    block.text for block in blocks(README) if block.language == "python" and not block.note
]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_there_are_pages_and_the_readme_shows_code() -> None:
    assert README in PAGES
    assert len(QUICKSTARTS) == 3
    assert list(steps(README))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_tried_or_says_why_not(page: Path) -> None:
    assert [block for block in blocks(page) if not _is_tried(block, page)] == []


def _is_tried(block: Block, page: Path) -> bool:
    match block.note.partition(" "):
        case ("not", _, rest):
            return rest.startswith("run: ") and len(rest) > 10
        case ("run", _, rest):
            test = ROOT / rest.removeprefix("by ")
            return page.name in test.read_text(encoding="utf-8")
        case ("file:", _, file):
            return any(isinstance(step, tuple) for step in steps(page)) and "/" not in file
        case ("printed", _, _):
            return bool(script(page))
        case ("", _, _):
            return block.language in ("python", "console")
        case _:
            return False


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != README and script(page)], ids=name
)
def test_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    done = _run(script(page), page, tmp_path)
    for block in blocks(page):
        if block.note == "printed":
            assert agrees(f"...{block.text.rstrip()}...", done.stdout), done.stdout


def _run(code: str, page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # A file, not -c: Inductor and tracebacks read the source of the model they are given.
    file = folder / f"{page.stem.replace('-', '_')}_code.py"
    file.write_text(code, encoding="utf-8")
    done = warm.run(file, cwd=folder, taken_down=True)  # as users run it
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("quickstart", QUICKSTARTS, ids=range(len(QUICKSTARTS)))
def test_a_quickstart_runs_by_itself(quickstart: str, tmp_path: Path) -> None:
    assert len(quickstart.splitlines()) < 20
    _run(quickstart, README, tmp_path)


@pytest.mark.parametrize(
    ("language", "words"),
    [("wir", ["print"]), ("python", ["emit"]), ("cpp", ["emit", "--target", "cpp"])],
)
def test_the_first_page_shows_what_the_command_line_writes(language: str, words: list[str]) -> None:
    (shown,) = (
        block.text
        for block in blocks(README)
        if block.language == language and block.note == "run by tests/test_docs.py"
    )
    done = CliRunner().invoke(main, [*words, str(ROOT / "examples" / "two_layers.wir")])
    assert f"\n{shown}" in done.stdout


def test_figures_of_the_first_page_are_those_of_the_benchmarks() -> None:
    first = README.read_text(encoding="utf-8").partition("\n## ")[0]
    cells = [cell for row in first.splitlines() for cell in row.split("|")[2:4]]
    figures = [each for cell in cells for each in re.findall(r"[\d.,]*\d", cell)]
    assert len(figures) > 10
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert [each for each in figures if not re.search(rf"(?<!\S){each}(?![\d.,]*\d)", page)] == []


def test_the_list_of_commands_is_complete() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)", page, re.MULTILINE)
    assert set(COMMANDS) <= set(listed)


#: Pages whose commands are tried each time; `make test-long` has the others.
TRIED = ("README.md",)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name(page), marks=() if name(page) in TRIED else pytest.mark.long)
        for page in PAGES
        if list(steps(page))
    ],
)
def test_commands_of_a_page_go_as_shown(page: Path, tmp_path: Path) -> None:
    tour(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_tables_of_options_are_what_the_schema_says() -> None:
    for each in option_table.PAGES:
        page = each.read_text(encoding="utf-8")
        assert option_table.made(page) == page
    page = option_table.PAGE.read_text(encoding="utf-8")
    for option in options_of(PythonEmitter):
        assert f"| `{option.name}` |" in page


def test_no_other_page_lists_the_options_of_emitters() -> None:
    """A table that lists most of an emitter's options would be a second one to keep."""
    names = {option.name for option in options_of(PythonEmitter)}
    for page in PAGES:
        if page != option_table.PAGE:
            text = page.read_text(encoding="utf-8")
            found = {name for name in names if f"\n| `{name}` |" in text}
            assert len(found) < 3, (page, found)
