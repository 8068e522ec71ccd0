"""Whole models over two ranks, each parameter gathered in its programs: what ``ranks.py`` found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch.distributed as dist

import wrapper_ir as wir
from tests.distributed.ranks import MODELS
from tests.distributed.runs import check, run_once

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
    ),
    pytest.mark.long,  # both ranks compile twelve models four times
]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_once(tmp_path_factory, "models", "cpu", 2, MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_bits_of_stock(ranks: Path, name: str) -> None:
    *_, emitters = MODELS[name]
    for rank in range(2):
        for emitter in ("stock", *emitters):
            check(ranks, rank, name, emitter)
    found = sorted(ranks.glob(f"{name}-*.rank0.wir"))
    assert len(found) >= 2 * len(emitters)
    for file in found:
        programs = [wir.load(str(file).replace(".rank0.", f".rank{n}.")) for n in (0, 1)]
        report = wir.verify_ranks(programs)
        assert report.ok, f"{file.name}: {report}"
