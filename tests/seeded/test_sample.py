"""Faults put into programs of two models are found, and nothing is said of what has none."""

from __future__ import annotations

import pytest
import torch

from tests.seeded.changes import CHANGES, NO_ORDER
from tests.seeded.survey import FINDERS, Survey, survey, survey_streams

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


def test_what_keeps_streams_in_order_is_not_left_out() -> None:
    found = Survey()
    survey_streams(1, found)
    assert found.alarms == []
    assert found.missed == []
    assert found.harmful[NO_ORDER, "verifier"] > 4


def test_faults_are_found() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = survey(["mlp", "input_mutation"], most=4, seed=1)
    finally:
        torch.set_num_threads(threads)
    assert found.alarms == []
    assert found.missed == [], found.table()
    assert found.noise == []
    assert found.not_shown.total() == 0
    assert found.share(*FINDERS) == 1
    assert found.share(*FINDERS[:-1]) > 0.9
    for kind in CHANGES:
        assert sum(n for (each, _), n in found.harmful.items() if each == kind) > 4
    for who in FINDERS[:-1]:
        assert sum(n for (_, each), n in found.harmful.items() if each == who) > 4
