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


@pytest.mark.skipif(TORCH < (2, 13), reason="calls go through torch's layers")
def test_a_trace(room: Path, invoke: Invoke) -> None:
    command = ("explain-call", "net_model:make", "--seconds", "0.01", "--trace")
    result = invoke(*command, "call.json", "-O", "profile=true")
    assert result.exit_code == 0, result.output
    assert "the whole call" in result.stdout
    events = json.loads((room / "call.json").read_text())["traceEvents"]
    assert {"the call", "graph 0: the program"} <= {event["name"] for event in events}
    assert any(event["name"].startswith("allocate ") for event in events)
    told = invoke(*command, "-")
    assert "traceEvents" in json.loads(told.stdout)
    assert invoke(*command, "-", "--json").exit_code == 2
    (room / "mine.txt").write_text("notes")
    assert invoke(*command, "mine.txt").exit_code == 2
