"""Running a program's call on its GPU, without any."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from wrapper_ir.runtime import on_device


@pytest.mark.parametrize("count", [1, 2])
def test_memory_for_results_is_passed_on(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    entered: list[torch.device] = []

    def enter(device: torch.device) -> nullcontext[None]:
        entered.append(device)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "device", enter)
    device = torch.device("cuda", 0)

    @on_device(device)
    def call(args: list[Any], out: list[Any] | None = None) -> tuple[Any, ...]:
        return (*args, out)

    assert call([1], out=[2]) == (1, [2])
    assert call([1]) == (1, None)
    assert entered == [device] * (2 if count > 1 else 0)
