"""Packages with collectives in C++, without Python: two ranks of the example over gloo."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import torch.distributed as dist

import wrapper_ir as wir
from tests import warm
from tests.export.deploy import compile_program

SOURCES = Path(__file__).parents[2] / "examples" / "deploy_distributed"

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)

OTHER_GROUP = """\
wir 2
program @sum inference logical
input %x : f32[2, 8] @cpu
extern _c10d_functional::all_reduce(Tensor input, Any reduce_op, Any group_name) -> Tensor
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
  %y = _c10d_functional::all_reduce(%x, "sum", "tp") : f32[2, 8] @cpu
  _c10d_functional::wait_tensor(%y)
return %y
"""


def _ranks(program: Path, model: Path) -> list[tuple[int, str, str]]:
    """Run both ranks; return how they ended, what they printed, and their errors."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {"GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [program, model, "2", "8"],
            env={**environment, "WORLD_SIZE": "2", "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [rank.communicate(timeout=300) for rank in ranks]
    return [(rank.returncode, *each) for rank, each in zip(ranks, said, strict=True)]


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d\.\d{4}", text)]


@pytest.mark.slow
def test_two_ranks_in_cpp_print_what_the_whole_model_gives(tmp_path: Path) -> None:
    exported = warm.run(SOURCES / "export.py", tmp_path / "split")
    assert exported.returncode == 0, exported.stderr
    names = f"-I{SOURCES / 'gloo_names'}"
    program = compile_program(tmp_path, SOURCES / "main.cpp", "-DUSE_C10D_GLOO", names)
    wanted = _numbers(exported.stdout)
    assert len(wanted) == 8
    for code, printed, errors in _ranks(program, tmp_path / "split"):
        assert code == 0, errors
        assert _numbers(printed) == pytest.approx(wanted, abs=2e-4)

    # Of a group that nobody has registered, each rank says the name, the op and the line.
    package = wir.export(wir.parse(OTHER_GROUP), tmp_path / "other.rank0.pt2")
    shutil.copy(package, tmp_path / "other.rank1.pt2")
    for code, _, errors in _ranks(program, tmp_path / "other"):
        assert code == 1
        assert "_c10d_functional::all_reduce" in errors
        assert "under the name tp" in errors
        assert "at body[" in errors
