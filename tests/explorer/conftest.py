"""The log of a process that stock torch compiled in, made once for all tests here."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """\
import torch
from torch._inductor import config


def trained(x, w):
    h = torch.relu(x @ w)
    return h.softmax(-1).sum()


def plain(x, w):
    return torch.tanh(x @ w) + 1


w = torch.randn(16, 8, requires_grad=True)
config.trace.provenance_tracking_level = 1
step = torch.compile(trained)
for size in (2, 5):
    step(torch.randn(size, 16), w).backward()
config.trace.provenance_tracking_level = 0
with torch.no_grad():
    torch.compile(plain)(torch.randn(4, 16), w)
torch.compile(plain, backend="eager")(torch.randn(3, 16), torch.randn(16, 9))
"""


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the log of a process that never heard of wrapper_ir."""
    folder = tmp_path_factory.mktemp("traced")
    file, logs = folder / "model.py", folder / "logs"
    file.write_text(MODEL, encoding="utf-8")
    # What comes from a cache names the files of the process that has put it there.
    own = {"TORCH_TRACE": str(logs), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    environment = {**os.environ, **own}
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return logs


RANKS = """\
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce


def mean(x, w):
    h = torch.relu(x @ w).sum(0)
    return all_reduce(h, "sum", dist.group.WORLD) / dist.get_world_size()


dist.init_process_group("gloo")
with torch.no_grad():
    torch.compile(mean)(torch.randn(4 + dist.get_rank(), 16), torch.randn(16, 8))
dist.destroy_process_group()
"""


@pytest.fixture
def traced_ranks(tmp_path: Path) -> Path:
    """Return a directory with the logs of two processes that reduce over both of them."""
    file, logs = tmp_path / "ranks.py", tmp_path / "rank_logs"
    file.write_text(RANKS, encoding="utf-8")
    changes = {"TORCH_TRACE": str(logs), "INDUCTOR_PROVENANCE": "1", "OMP_NUM_THREADS": "1"}
    changes["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "cache")
    run = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = subprocess.run(
        [*run, str(file)], env={**os.environ, **changes}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return logs


GPU = """\
import torch
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.frontends.no_gpu import CompiledError, pretended_gpu, stopped

config.trace.provenance_tracking_level = 1


def scores(x, w):
    h = torch.relu(x @ w)
    return h.softmax(-1) + 1


def backend(module, inputs):
    compile_fx(module, inputs)
    raise CompiledError


with FakeTensorMode() as mode:
    given = [torch.empty(64, 64, device="cuda:0") for _ in range(2)]
with pretended_gpu(), mode:
    stopped(lambda: torch.compile(scores, backend=backend, fullgraph=True)(*given))
"""


@pytest.fixture
def traced_gpu(tmp_path: Path) -> Path:
    """Return a directory with the log of a graph that stock Inductor wrote for a GPU."""
    file, logs = tmp_path / "gpu.py", tmp_path / "gpu_logs"
    file.write_text(GPU, encoding="utf-8")
    changes = {"TORCH_TRACE": str(logs), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(file)], env={**os.environ, **changes}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return logs
