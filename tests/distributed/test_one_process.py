"""The cases of ``ranks.py``, compiled by one rank alone: programs are what their graphs say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist

import wrapper_ir as wir
from tests.distributed import ranks
from wrapper_ir.frontends.inductor import statistics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups"),
    pytest.mark.filterwarnings("default"),  # torch warns of itself
]

#: Those that need another rank (torch's reducer waits for it), or more files than a program.
_ELSEWHERE = ("ddp", "exported", "exported split", "source", "captured", "captured split")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A group of two ranks, the other of which does not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()
    torch._dynamo.reset()


@pytest.mark.parametrize("case", [case for case in ranks.CASES if case not in _ELSEWHERE])
def test_programs_are_what_their_graphs_say(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    statistics.reset()
    compiled = partial(torch.compile, backend="wrapper_ir", options={"validate": "error"})
    with wir.record() as programs:
        found = ranks.tried(ranks.CASES[case][0], compiled)
    assert not isinstance(found, str), found
    assert programs
    assert not statistics.fallbacks
