"""No plan of ours holds more than the better of Inductor's, on any graph of the zoo."""

from __future__ import annotations

import pytest

from tests.models.planners import POOLS, compare
from tests.models.zoo import CASES, Case

#: Those that `make test` captures; `make models` captures all.
FEW = {"mlp", "conv_net", "encoder", "unet", "attention"}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case.name in FEW else [pytest.mark.models], id=case.name)
        for case in CASES
        if case.name != "graph_breaks"  # it has no one graph to export
    ],
)
def test_ours_hold_no_more_than_inductors(case: Case) -> None:
    peaks = compare(*case.make())
    assert peaks.stock.keys() == {"reuse", *POOLS}
    best = min(peaks.stock.values())
    assert best >= peaks.bound > 0  # a count that misses something would be below
    assert peaks.ours["reuse"] <= best
    assert peaks.ours["pool"] <= best
