"""The README's tour of the command line, typed in as it stands: it shows what really comes out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.pages import ROOT, steps, tour

if TYPE_CHECKING:
    from pathlib import Path

README = ROOT / "README.md"


@pytest.mark.slow
def test_the_tour_goes_as_shown(tmp_path: Path) -> None:
    assert len(list(steps(README))) > 5
    tour(README, tmp_path)


def test_the_list_of_commands_is_complete() -> None:
    from wrapper_ir.cli.app import COMMANDS

    listed = re.findall(r"^\| `([a-z-]+)", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(COMMANDS) <= set(listed)
