"""What runs of ranks share. Those of ``ranks.py`` are done once, for all tests that look at it."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

EMITTERS = ("python", "cpp", "fx")

#: What a rank that waits for a dead one does not exceed.
PATIENCE = datetime.timedelta(seconds=100)

PROGRAM = Path(__file__).with_name("ranks.py")


def run_once(
    factory: pytest.TempPathFactory, name: str, device: str, count: int, cases: Iterable[str] = ()
) -> Path:
    """Return a folder with what all ranks found, whoever of pytest's workers asks first."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder: Path = root / f"ranks-{name}"
    with (root / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            _run(folder, device, count, cases)
    return folder


def _run(folder: Path, device: str, count: int, cases: Iterable[str]) -> None:
    """Run all ranks to their end; keep what they say."""
    with (folder / "said").open("w") as said:
        ranks = [
            subprocess.Popen(
                [sys.executable, PROGRAM, f"{rank}/{count}", folder, device, *cases],
                stdout=said,
                stderr=subprocess.STDOUT,
            )
            for rank in range(count)
        ]
        for rank in ranks:
            rank.wait()


def check(folder: Path, rank: int, case: str, emitter: str) -> None:
    """Fail unless a rank found nothing wrong."""
    lines = (folder / f"rank{rank}").read_text(encoding="utf-8").splitlines()
    found = {(name, who): wrong for name, who, wrong in map(json.loads, lines)}
    assert (case, emitter) in found, (folder / "said").read_text(encoding="utf-8")[-4000:]
    assert not found[case, emitter], found[case, emitter]
