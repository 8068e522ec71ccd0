"""A sample under valgrind: a model for x86-64-v3 in the C++ program of ``examples/deploy_cpp``.

    python -m tests.sanitize.valgrind

valgrind 3.19 knows no AVX-512, hence the level; PyTorch's own libraries are told to keep to AVX2.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import wrapper_ir as wir
from tests.export.deploy import compile_program
from wrapper_ir.toolchain.isa import cpu_features

LEVEL = "x86-64-v3"
_ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "OMP_NUM_THREADS": "1",
}


def main() -> int:
    """Export, compile the program, run it; returns the number that the process ends with."""
    if shutil.which("valgrind") is None or "avx2" not in cpu_features():
        print("skipped: needs valgrind, and a processor with AVX2")
        return 0
    torch.manual_seed(0)
    layers = (torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.LayerNorm(32))
    model = torch.nn.Sequential(*layers, torch.nn.Linear(32, 4), torch.nn.Softmax(-1)).eval()
    program = wir.capture(model, (torch.randn(2, 8),), isa=LEVEL)
    with tempfile.TemporaryDirectory() as name:
        package = wir.export(program, Path(name) / "sample.pt2", isa=LEVEL)
        executable = compile_program(Path(name))
        command = ["valgrind", "--quiet", "--error-exitcode=3", executable, package, "2", "8"]
        done = subprocess.run(command, check=False, env={**os.environ, **_ENVIRONMENT})
    print("valgrind: clean" if done.returncode == 0 else f"valgrind: ended with {done.returncode}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
