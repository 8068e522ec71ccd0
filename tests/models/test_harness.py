"""The measuring instruments themselves: that they see what they are there to see."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.models import harness
from tests.models.harness import STOCK, Call, Run
from tests.models.memory import peak_bytes
from tests.models.watch import Watch, watch_inductor
from tests.models.zoo import CASES, DYNAMIC, TRAINING


def test_peak_is_that_of_the_storage_alive() -> None:
    def step() -> torch.Tensor:
        first = torch.empty(1000, dtype=torch.float64)
        second = torch.empty(500, dtype=torch.float64)
        del first
        third = torch.empty(300, dtype=torch.float64)
        return second[:10] if third.numel() else third

    assert peak_bytes(step) == (1000 + 500) * 8


def test_peak_sees_what_bypasses_the_dispatcher_and_what_library_ops_take() -> None:
    allocate = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]
    assert peak_bytes(lambda: allocate((256,), (1,), torch.float32)) == 1024
    value = torch.randn(64, 64)
    assert peak_bytes(lambda: torch.linalg.svd(value)) > 3 * value.nbytes


def test_peak_counts_only_what_the_step_itself_made() -> None:
    kept = [torch.empty(1000, dtype=torch.uint8)]

    def step() -> torch.Tensor:
        kept.clear()
        return torch.empty(1200, dtype=torch.uint8)

    assert peak_bytes(step) == 1200


def test_peak_is_not_led_astray_by_what_an_earlier_profile_saw_at_an_address() -> None:
    for _ in range(20):
        seen: list[torch.Tensor] = []
        peak_bytes(lambda: seen.append(torch.empty(1000, dtype=torch.float64)))  # noqa: B023
        address = seen.pop().data_ptr()  # freed while nobody looks, so torch still has it listed
        kept = [torch.empty(7900, dtype=torch.uint8)]
        same = kept[0].data_ptr() == address

        def step() -> torch.Tensor:
            kept.clear()  # noqa: B023
            return torch.empty(1200, dtype=torch.uint8)

        assert peak_bytes(step) == 1200
        if same:
            return
    pytest.skip("the C library never handed out the same address")


def call(**changes: Any) -> Call:
    value = torch.tensor([[1.0, -0.0], [float("nan"), 2.0]])
    given: dict[str, Any] = {
        "results": [value],
        "held": [value],
        "sharing": [(0, 0)],
        "arguments": [torch.ones(2), 3],
        "gradients": {"weight": torch.ones(2), "bias": None},
        "state": {"mean": torch.zeros(2)},
        "generator": torch.zeros(4, dtype=torch.uint8),
    }
    return Call(**copy.deepcopy({**given, **changes}))


def run(**changes: Any) -> Run:
    return Run(Watch(), [call(**changes)])


def test_equal_runs_do_not_differ() -> None:
    assert harness.differences(run(), run()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"results": [torch.tensor([[1.0, 0.0], [float("nan"), 2.0]])]}, "values differ"),
        ({"results": [torch.ones(2, 2)]}, "values differ"),
        ({"results": [torch.ones(2, 2).double()]}, "dtype"),
        ({"results": [torch.ones(4)]}, "shape"),
        ({"results": [torch.ones(2, 2).t()]}, "stride"),
        ({"results": [torch.ones(8)[4:].view(2, 2)]}, "storage offset"),
        ({"results": [None]}, "None"),
        ({"results": []}, "0 of them, not 1"),
        ({"held": [torch.ones(2, 2)]}, "after all calls"),
        ({"sharing": [(0, 1)]}, "share storage"),
        ({"arguments": [torch.zeros(2), 3]}, "argument 0"),
        ({"arguments": [torch.ones(2), 4]}, "4, not 3"),
        ({"gradients": {"weight": None, "bias": None}}, "gradient of weight"),
        ({"gradients": {"weight": torch.ones(2)}}, "are there"),
        ({"state": {"mean": torch.ones(2)}}, "state mean"),
        ({"generator": torch.ones(4, dtype=torch.uint8)}, "generator"),
    ],
)
def test_every_difference_is_said(changes: dict[str, Any], said: str) -> None:
    (found,) = harness.differences(run(**changes), run())
    assert said in found


def test_stock_agrees_with_itself() -> None:
    case = next(case for case in CASES if case.name == "mlp")
    first = harness.run(case, STOCK, training=True)
    again = harness.run(case, STOCK, training=True)
    assert harness.differences(again, first) == []
    assert again.peak == first.peak > 0
    exact = harness.reference(case, training=True)
    assert 0 < harness.error(first.calls[0], exact) < 1e-5


def test_the_watch_sees_graphs_from_a_cache_too() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2.0625

    counts = []
    for _ in range(2):
        torch._dynamo.reset()
        with watch_inductor() as seen:
            torch.compile(double)(torch.ones(3))
        counts.append((seen.lowered, len(seen.graphs), "2.0625" in seen.sources[0]))
    assert counts[1][:2] == (0, 1)
    assert counts[0][1] == 1


def test_the_zoo_has_what_it_promises() -> None:
    assert len(TRAINING) >= 4
    assert len(DYNAMIC) >= 4
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        module, arguments = case.make()
        again, same = case.make()
        assert all(torch.equal(a, b) for a, b in zip(arguments, same, strict=True))
        states = module.state_dict(), again.state_dict()
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
