"""A rank dies in a collective: the other one hears it, torchrun restarts both, caches are whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist

from tests import warm
from tests.distributed.runs import EMITTERS

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)


#: What ``torchrun`` does, in a process that has torch, of which the ranks are forks.
TORCHRUN = "from torch.distributed.run import main; main()"
WORDS = ["--standalone", "--nproc-per-node=2", f"--max-restarts={len(EMITTERS)}"]
WORDS += ["--monitor-interval=0.1", "--run-path", "--start-method=fork"]


def test_ranks_that_are_started_again_find_whole_caches(tmp_path: Path, own_cache: Path) -> None:
    program = Path(__file__).with_name("restarts.py")
    changes = {"GLOO_SOCKET_IFNAME": "lo", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    done = warm.run(TORCHRUN, *WORDS, program, tmp_path, **changes)
    assert done.returncode == 0, done.stderr[-4000:]
    said = {
        file.name: file.read_text(encoding="utf-8").splitlines()
        for file in tmp_path.glob("start*.rank*")
    }
    assert len(said) == 2 * (len(EMITTERS) + 1), (said, done.stderr[-4000:])
    for start, emitter in enumerate(EMITTERS):
        heard, died = said[f"start{start}.rank0"][-1], said[f"start{start}.rank1"][-1]
        assert heard.startswith(f"{emitter} heard "), said
        assert died.startswith(f"{emitter} died "), said
        # One rank may find in the cache what the other has compiled.
        assert int(heard.split()[2]) + int(died.split()[2]) >= 1, said
        # The sums of both calls, and no program made: caches have them.
        for rank in (0, 1):
            assert said[f"start{start + 1}.rank{rank}"][0] == f"{emitter} [12.0, 12.0, 12.0] 0"
    assert not [*tmp_path.rglob("*.tmp"), *own_cache.glob("tmp/*")]
