"""The tool that changes things between calls: a few changes, and that it notices a wrong value."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import torch

from tests.changes.state import CHOICES, Setting, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=1000):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("door", ["compile", "jit"])
@pytest.mark.parametrize("name", ["scaled", "counted", "weight_returned"])
def test_changes(name: str, door: str) -> None:
    trial = Trial(name, random.Random(name), "python", door)
    assert [verdict for verdict in trial.run(10) if verdict.kind != "same"] == []


def test_a_wrong_value_is_noticed() -> None:
    trial = Trial("scaled", random.Random(1), "python")
    assert next(trial.run(1)).kind == "same"
    trial.eager.body = lambda m, x, y, k: x * k + y
    assert next(trial.run(1)).kind == "different"


def test_each_field_can_change() -> None:
    assert set(CHOICES) == set(Setting.__dataclass_fields__)
