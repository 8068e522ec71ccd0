"""The example of training on several ranks says that its losses are those of one process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
    ),
    pytest.mark.long,  # four ranks compile, and trace a decoder before
]


def test_a_mesh_of_two_dimensions_trains_as_one_process_does() -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    example = ["--nproc-per-node", "4", ROOT / "examples" / "train_distributed.py"]
    changes = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*torchrun, *example, "--layers", "2"],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = re.fullmatch(r"(\d+) programs; losses [\d. ]+, as those of one process\n", done.stdout)
    assert said is not None, done.stdout
    assert int(said[1]) >= 2
