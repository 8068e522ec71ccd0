"""Collectives at work while a program goes on: every target leaves what they use as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests import warm
from tests.distributed.in_flight import TARGETS

GLOO = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)
NCCL = [
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs"),
    pytest.mark.gpu,
]


@pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=GLOO), pytest.param("cuda", marks=NCCL)]
)
def test_nothing_is_copied_before_it_is_there(tmp_path: Path, device: str) -> None:
    program = Path(__file__).with_name("in_flight.py")
    done = warm.run(program, tmp_path, device, taken_down=True)
    assert done.returncode == 0, done.stderr
    wanted = [f"{rank} {target}{5 * ' True'}" for rank in (0, 1) for target in TARGETS]
    assert sorted(done.stdout.splitlines()) == sorted(wanted)
