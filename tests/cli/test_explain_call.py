"""``wrapper-ir explain-call``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.release import TORCH

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke


@pytest.mark.skipif(TORCH < (2, 13), reason="calls go through torch's layers")
def test_a_model(room: Path, invoke: Invoke) -> None:
    result = invoke("explain-call", "net_model:make", "--seconds", "0.01")
    assert result.exit_code == 0, result.output
    assert "the whole call" in result.stdout
    assert "graph 0: the program" in result.stdout
    told = invoke("explain-call", "net_model.py:make", "--seconds", "0.01", "--json", "--training")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["graphs"][0]["program_us"] > 0
