"""Two GPUs that address memory of each other: what ``ranks.py`` found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.distributed.ranks import SYMMETRIC
from tests.distributed.runs import check, run_once

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs"),
    pytest.mark.gpu,
]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_once(tmp_path_factory, "symmetric", "cuda", 2, SYMMETRIC)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("case", "emitter"),
    [(case, who) for case, (*_, emitters) in SYMMETRIC.items() for who in ("stock", *emitters)],
)
def test_ranks_agree_with_stock(ranks: Path, case: str, emitter: str, rank: int) -> None:
    check(ranks, rank, case, emitter)


@pytest.mark.parametrize("case", SYMMETRIC)
def test_programs_of_ranks_fit_together(ranks: Path, case: str) -> None:
    found = sorted(ranks.glob(f"{case}-*.rank0.wir"))
    assert found
    for file in found:
        programs = [wir.load(str(file).replace(".rank0.", f".rank{n}.")) for n in (0, 1)]
        report = wir.verify_ranks(programs)
        assert report.ok, f"{file.name}: {report}"
        assert not report.not_shown, f"{file.name}: {report}"
