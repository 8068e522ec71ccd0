"""The log of a process that stock torch compiled in, made once for all tests here."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

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
    environment = {**os.environ, "TORCH_TRACE": str(logs)}
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return logs
