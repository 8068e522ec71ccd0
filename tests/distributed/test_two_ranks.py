"""Collectives among two ranks, over gloo or between two GPUs: what ``ranks.py`` found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist

import wrapper_ir as wir
from tests.distributed.ranks import CASES
from tests.distributed.runs import check, run_once
from wrapper_ir.interpreter import run_ranks

if TYPE_CHECKING:
    from pathlib import Path

GLOO = [
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
    ),
    pytest.mark.long,  # both ranks compile everything four times: two minutes
]

NCCL = [
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs"),
    pytest.mark.gpu,
]

pytestmark = pytest.mark.parametrize(
    "ranks", [pytest.param("cpu", marks=GLOO), pytest.param("cuda", marks=NCCL)], indirect=True
)


@pytest.fixture(scope="module")
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what both ranks found; they are run once, whoever of pytest's workers asks."""
    return run_once(tmp_path_factory, request.param, request.param, 2)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("case", "emitter"),
    [(case, who) for case, (*_, emitters) in CASES.items() for who in ("stock", *emitters)],
)
def test_ranks_agree_with_stock(ranks: Path, case: str, emitter: str, rank: int) -> None:
    check(ranks, rank, case, emitter)


@pytest.mark.parametrize("case", CASES)
def test_programs_of_ranks_fit_together(ranks: Path, case: str) -> None:
    """What real ranks ran to the end raises no alarm, and runs in one process as well."""
    found = sorted(ranks.glob(f"{case}-*.rank0.wir"))
    assert found
    for file in found:
        files = [file.with_suffix("").with_suffix(f".rank{n}.wir") for n in (0, 1)]
        programs = [wir.load(each) for each in files]
        report = wir.verify_ranks(programs)
        assert report.ok, f"{file.name}: {report}"
        assert not report.not_shown, f"{file.name}: {report}"
        if ranks.name == "ranks-cpu" and "-python-" in file.name:
            runs = [run_ranks(programs, _inputs(programs), seed=seed) for seed in (1, 2)]
            torch.testing.assert_close(*runs, rtol=0, atol=0, equal_nan=True)


def test_programs_that_any_rank_may_compile_are_the_same(ranks: Path) -> None:
    found = sorted(ranks.glob("on one rank-*.rank0.wir"))
    assert found
    for file in found:
        other = file.with_suffix("").with_suffix(".rank1.wir")
        assert file.read_text(encoding="utf-8") == other.read_text(encoding="utf-8"), file.name


def _inputs(programs: list[wir.Program]) -> list[tuple[object, ...]]:
    return [wir.testing.example_inputs(program) for program in programs]
