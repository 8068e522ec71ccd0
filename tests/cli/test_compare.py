"""``wrapper-ir compare``: two folders of programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.samples import SMALL
from wrapper_ir.diffing import SetDiff

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("main/nets", "branch/nets", "empty"):
        Path(folder).mkdir(parents=True)
    for folder in ("main", "branch"):
        Path(folder, "same.wir").write_text(SMALL)
    Path("main/nets/a b.wir").write_text(SMALL)
    Path("branch/nets/a b.wir").write_text(SMALL.replace("f32[4]", "f32[8]"))
    Path("branch/new.wir").write_text(SMALL)


def test_each_change_says_how_to_see_it(invoke: Invoke) -> None:
    result = invoke("compare", "main", "branch")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "3 programs: 1 added, 1 changed, 1 the same"
    command = "wrapper-ir explore 'main/nets/a b.wir' 'branch/nets/a b.wir' -o 'a b.html'"
    assert f"  {command}" in lines
    assert "  wrapper-ir explore branch/new.wir -o new.html" in lines
    assert "same" not in "".join(lines[1:])
    assert invoke("compare", "main", "main").exit_code == 0


def test_json_reads_back(invoke: Invoke) -> None:
    result = invoke("compare", "main", "branch", "--format", "json")
    found = SetDiff.from_json(result.stdout)
    assert [each.name for each in found.changes] == ["nets/a b", "new"]
    assert json.loads(result.stdout)["changes"][0]["after"]["allocated_bytes"] == 32


def test_a_comment_links_to_pages(invoke: Invoke) -> None:
    words = ("--format", "markdown", "--pages", "out/pages", "--url", "https://x.example/1")
    result = invoke("compare", "main", "branch", *words)
    links = re.findall(r"\[page\]\(<(.*?)>\)", result.stdout)
    assert links == ["https://x.example/1/nets/a%20b.html", "https://x.example/1/new.html"]
    for name in ("nets/a b", "new"):
        assert "<html" in Path(f"out/pages/{name}.html").read_text()
    again = invoke("compare", "main", "branch", "--format", "markdown", "--pages", "out/pages")
    assert "[page](<out/pages/new.html>)" in again.stdout
    assert sorted(p.name for p in Path("out").rglob("*.*")) == ["a b.html", "new.html"]


def test_structures_only(invoke: Invoke) -> None:
    checked = SMALL.replace("  %a = al", '  assert_layout %x, "input"\n  %a = al')
    Path("branch/same.wir").write_text(checked)
    Path("branch/new.wir").unlink()
    Path("branch/nets/a b.wir").write_text(SMALL)
    assert invoke("compare", "main", "branch").exit_code == 1
    assert invoke("compare", "main", "branch", "--structure").exit_code == 0


def test_mistakes(invoke: Invoke) -> None:
    assert "no .wir file" in invoke("compare", "empty", "empty").stderr
    assert "--url needs --pages" in invoke("compare", "main", "branch", "--url", "x").stderr
    Path("branch/same.wir").write_text("no program")
    result = invoke("compare", "main", "branch")
    assert result.exit_code == 2
    assert "branch/same.wir" in result.stderr
