"""Symmetric memory of two ranks without a GPU: what ``peers.py`` found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import warm
from tests.distributed import peers, shared_memory
from tests.release import TORCH

pytestmark = shared_memory.needs_shared_memory


def found(folder: Path, *names: str) -> dict[tuple[int, str], str]:
    """How cases fail, by rank and name."""
    shared_memory.library()
    program = Path(__file__).with_name("peers.py")
    done = warm.run(program, folder, *names, taken_down=True)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return {(rank, name): wrong for rank, name, wrong in lines}


@pytest.fixture(scope="module")
def of_memory(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], str]:
    return found(tmp_path_factory.mktemp("ranks"), *peers.MEMORY)


@pytest.mark.parametrize("case", peers.MEMORY)
def test_memory(of_memory: dict[tuple[int, str], str], case: str) -> None:
    wrong = [of_memory[rank, case] for rank in (0, 1)]
    assert not any(wrong), "\n".join(wrong)


@pytest.fixture(scope="module")
def of_programs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], str]:
    return found(tmp_path_factory.mktemp("ranks"), *peers.PROGRAMS)


@pytest.mark.skipif(TORCH < (2, 12), reason="2.11 loses what it computes for peers: refused")
@pytest.mark.parametrize("case", peers.PROGRAMS)
def test_programs(of_programs: dict[tuple[int, str], str], case: str) -> None:
    wrong = [of_programs[rank, case] for rank in (0, 1)]
    assert not any(wrong), "\n".join(wrong)
