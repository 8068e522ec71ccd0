"""The examples of several ranks compare what they compute with eager, and say so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

ROOT = Path(__file__).parents[2]
TRAIN, SERVE = (ROOT / "examples" / f"{name}_distributed.py" for name in ("train", "serve"))

pytestmark = [
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
    ),
    pytest.mark.long,  # two and four ranks compile, and trace a decoder before
]


def run(*command: Path | str, ranks: int = 0) -> subprocess.CompletedProcess[str]:
    """Run an example: alone, or as so many ranks."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    changes = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *(torchrun if ranks else ()), *command],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_mesh_of_two_dimensions_trains_as_one_process_does() -> None:
    done = run(TRAIN, "--layers", "2", ranks=4)
    assert done.returncode == 0, done.stderr[-4000:]
    said = re.fullmatch(r"(\d+) programs; losses [\d. ]+, as those of one process\n", done.stdout)
    assert said is not None, done.stdout
    assert int(said[1]) >= 2


def test_two_ranks_serve_what_one_process_has_built(tmp_path: Path) -> None:
    path = f"--path={tmp_path / 'decoder'}"
    for ranks, wrong, words in (
        (0, (), "start the ranks with torchrun"),
        (0, ("--build=3",), "4 key heads cannot be split among 3 ranks"),
        (1, (), "decoder.0-of-1.pt2: write packages for 1 ranks"),
    ):
        refused = run(SERVE, path, *wrong, ranks=ranks)
        assert refused.returncode
        assert words in refused.stderr
    built = run(SERVE, path, "--build=2")
    assert built.returncode == 0, built.stderr[-4000:]
    assert [Path(name).name for name in built.stdout.split()] == [
        f"decoder.{rank}-of-2.pt2" for rank in (0, 1)
    ]
    by_eager, by_stock = (
        run(SERVE, path, f"--against={other}", ranks=2) for other in ("eager", "inductor")
    )
    for done in by_eager, by_stock:
        assert done.returncode == 0, done.stderr[-4000:]
    first, second, again, *others = by_eager.stdout.splitlines()
    assert again == first
    assert len({first, second, *others}) == 4
    assert by_stock.stdout == by_eager.stdout.replace("eager", "inductor")
