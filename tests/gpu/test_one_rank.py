"""Two ranks on GPUs of their own run what one of them has compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.gpu.one_rank import WAYS

pytestmark = [
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two GPUs"),
    pytest.mark.skipif(
        not hasattr(torch.compiler.config, "compile_on_one_rank"),
        reason="torch 2.15 brings the setting",
    ),
]


def test_one_compiles_and_both_are_right(tmp_path: Path) -> None:
    caches = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "WRAPPER_IR_CACHE_DIR")
    environment = os.environ | {name: str(tmp_path / name) for name in caches}
    program = Path(__file__).with_name("one_rank.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, program, str(rank), tmp_path],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    with ThreadPoolExecutor() as readers:  # since one may wait for another that has failed
        said = list(readers.map(lambda rank: rank.communicate()[0], ranks))
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    found = [json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(2)]
    for way in WAYS:
        (first, made), (second, made_there) = (each[way] for each in found)
        assert first, way
        assert second, way
        assert {made, made_there} == {0, 2}, way
