"""Fixtures for tests of calls through ``torch.compile``."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
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
def few_objects() -> None:
    """Leave to the collector what the test makes itself: all there is takes it half a second."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture
def own_group() -> Iterator[None]:
    """A process group of this process alone."""
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
