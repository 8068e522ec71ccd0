"""``wrapper-ir diff``: what it says, in which form, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.samples import SMALL
from wrapper_ir.diffing import ProgramDiff, SourceDiff

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.wir").write_text(SMALL)
    Path("same.wir").write_text(SMALL.replace("%a", "%b").replace("@small", "@other"))
    Path("b.wir").write_text(SMALL.replace("f32[4] @cpu", "f32[8] @cpu"))
    Path("faulty.wir").write_text(SMALL.replace("return %a", "return %c"))


def test_the_same(invoke: Invoke) -> None:
    result = invoke("diff", "a.wir", "same.wir")
    assert (result.exit_code, result.stdout) == (0, "The programs are the same.\n")


def test_a_difference(invoke: Invoke) -> None:
    result = invoke("diff", "a.wir", "b.wir")
    assert result.exit_code == 1
    assert result.stdout.startswith("lines: 1 changed; inputs: 1 changed\n")
    assert "~ body[1]  %a = allocate : f32[8] @cpu\n    size[0] 4 -> 8\n" in result.stdout
    assert "bytes allocated                   16  -> 32\n" in result.stdout


def test_json(invoke: Invoke) -> None:
    result = invoke("diff", "a.wir", "b.wir", "--format", "json")
    assert result.exit_code == 1
    assert len(ProgramDiff.from_json(result.stdout).lines) == 1
    result = invoke("diff", "a.wir", "b.wir", "--format", "json", "--target", "python")
    assert result.exit_code == 1
    assert SourceDiff.from_json(result.stdout).target == "python"
    assert json.loads(invoke("diff", "a.wir", "same.wir", "--format", "json").stdout)["lines"] == []


def test_colours(invoke: Invoke) -> None:
    assert "\x1b[33m" in invoke("diff", "a.wir", "b.wir", "--format", "rich").stdout


@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
def test_what_is_emitted(target: str, invoke: Invoke) -> None:
    result = invoke("diff", "a.wir", "same.wir", "--target", target)
    assert (result.exit_code, result.stdout) == (0, f"The texts for {target} are the same.\n")
    result = invoke("diff", "a.wir", "b.wir", "--target", target)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{target}, sections: ")
    removed = [line for line in result.stdout.splitlines() if line.strip().startswith("- ")]
    assert removed
    assert all("4" in line for line in removed)


def test_standard_input(invoke: Invoke) -> None:
    text = Path("b.wir").read_text()
    assert invoke("diff", "a.wir", "-", stdin=text).exit_code == 1
    assert invoke("diff", "-", "b.wir", stdin=text).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        "a.wir missing.wir",
        "a.wir",
        "- -",
        "a.wir b.wir --target pyton",
        "a.wir b.wir -O origins=true",
        "a.wir b.wir --format xml",
        "a.wir faulty.wir --target python",
    ],
)
def test_trouble_is_two(words: str, invoke: Invoke) -> None:
    result = invoke("diff", *words.split())
    assert result.exit_code == 2
    assert result.stderr
    assert not result.stdout


def test_a_faulty_program_is_compared_as_it_stands(invoke: Invoke) -> None:
    result = invoke("diff", "a.wir", "faulty.wir")
    assert result.exit_code == 1
    assert "~ result [0] %a : f32[4] @cpu -> [0] %c : ?" in result.stdout
