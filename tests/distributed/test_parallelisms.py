"""Ways to spread a model over two ranks, and over four: what ``ranks.py`` found over gloo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch.distributed as dist

import wrapper_ir as wir
from tests.distributed.ranks import ALL, IN_TURN, SHARED, SPREAD
from tests.distributed.runs import check, run_once
from tests.release import TORCH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_once(
        tmp_path_factory, "turns", "cpu", 2, [*IN_TURN, *(SHARED if TORCH >= (2, 15) else ())]
    )


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_once(tmp_path_factory, "two", "cpu", 2, SPREAD[2])


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_once(tmp_path_factory, "four", "cpu", 4, SPREAD[4])


def _check(folder: Path, case: str, count: int) -> None:
    """Every rank has stock's bits with each emitter, and its programs fit those of others."""
    *_, emitters = ALL[case]
    for rank in range(count):
        for emitter in ("stock", *emitters):
            check(folder, rank, case, emitter)
    assert len(list(folder.glob(f"{case}-*.wir"))) >= count * len(emitters)


@pytest.mark.parametrize("case", IN_TURN)
def test_two_ranks_agree_with_stock(turns: Path, case: str) -> None:
    _check_two(turns, case)


@pytest.mark.skipif(TORCH < (2, 15), reason="it brought the setting")
@pytest.mark.parametrize("case", SHARED)
def test_one_rank_compiles_for_both(turns: Path, case: str) -> None:
    *_, emitters = SHARED[case]
    for rank in range(2):
        for emitter in ("stock", *emitters):
            check(turns, rank, case, emitter)


@pytest.mark.long
@pytest.mark.parametrize("case", SPREAD[2])
def test_two_ranks_agree_with_stock_in_every_emitter(two: Path, case: str) -> None:
    _check_two(two, case)


def _check_two(folder: Path, case: str) -> None:
    _check(folder, case, 2)
    for file in sorted(folder.glob(f"{case}-*.rank0.wir")):
        programs = [wir.load(str(file).replace(".rank0.", f".rank{n}.")) for n in (0, 1)]
        report = wir.verify_ranks(programs)
        assert report.ok, f"{file.name}: {report}"
        assert not report.not_shown, f"{file.name}: {report}"


@pytest.mark.long
@pytest.mark.parametrize("case", SPREAD[4])
def test_four_ranks_agree_with_stock(four: Path, case: str) -> None:
    _check(four, case, 4)


@pytest.mark.long
def test_programs_of_a_mesh_are_the_same(four: Path) -> None:
    # Each way to compile has made a mesh.
    numbers = ["", *(f".{number}" for number in range(1, 16))]
    groups = {f"mesh_dp{number}": [[0, 2], [1, 3]] for number in numbers}
    groups |= {f"mesh_tp{number}": [[0, 1], [2, 3]] for number in numbers}
    found = sorted(four.glob("two dimensions on one rank-*.rank0.wir"))
    assert found
    for file in found:
        files = [str(file).replace(".rank0.", f".rank{n}.") for n in range(4)]
        texts = {str(wir.load(each)) for each in files}
        assert len(texts) == 1, file.name
        report = wir.verify_ranks([wir.load(each) for each in files], groups=groups)
        assert report.proved, f"{file.name}: {report}"
