"""Tests that need a GPU and Triton: `make gpu`. Elsewhere they are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    missing = not torch.cuda.is_available()
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            # Inductor and Triton warn of themselves on GPUs (autotuning, TF32, old interfaces).
            item.add_marker(pytest.mark.filterwarnings("default"))
            if missing:
                item.add_marker(pytest.mark.skip(reason="there is no GPU"))
