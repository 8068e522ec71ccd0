"""Fixtures for tests of calls through ``torch.compile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
from torch._inductor.output_code import CompiledFxGraph

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fresh() -> Iterator[None]:
    """Let Dynamo know nothing, before and after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def through_torch() -> Iterator[list[Any]]:
    """Collect the graphs that are called through torch's layers."""
    calls: list[Any] = []
    theirs = CompiledFxGraph.__call__

    def noting(graph: CompiledFxGraph, inputs: Any) -> Any:
        calls.append(graph)
        return theirs(graph, inputs)

    with mock.patch.object(CompiledFxGraph, "__call__", noting):
        yield calls
