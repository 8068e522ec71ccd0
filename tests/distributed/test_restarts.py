"""A rank dies in the middle: the other one hears it, and torchrun's restart finds whole caches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)


@pytest.mark.long
def test_ranks_that_are_started_again_find_whole_caches(tmp_path: Path) -> None:
    program = Path(__file__).with_name("restarts.py")
    environment = {
        **os.environ,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path]),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "WRAPPER_IR_CACHE_DIR": str(tmp_path / "ours"),
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=1"]
    command += ["--nproc-per-node=2", "--monitor-interval=0.1", str(program), str(tmp_path)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.glob("start*")}
    assert said["start0.rank1"].startswith("died")
    # Torchrun may end the survivor before it has heard; whatever it says, it says why.
    heard = said.get("start0.rank0", "heard RuntimeError")
    assert heard.startswith("heard RuntimeError")
    # The sums of both calls, and no program made: caches have them.
    for rank in (0, 1):
        assert said[f"start1.rank{rank}"] == "[12.0, 12.0, 12.0] 0"
    assert not [each for each in tmp_path.rglob("*") if each.name.endswith(".tmp")]
