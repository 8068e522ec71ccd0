"""Measure build time and memory for libraries of long programs: 500 to 5,000 calls.

    python benchmarks/aot_scale.py              # 500, 1,000, 2,000 and 5,000 calls
    python benchmarks/aot_scale.py 1000 --json  # other lengths

The calls cycle through an ``addmm`` and four kernels. The programs themselves are never cached; the
parts that all programs share (the runtime part, precompiled headers) are. Times are wall time, with
one compiler per processor. Memory is that of the largest compiler process. The exponent describes
how time grows with the number of calls from the shortest to the longest program: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import wrapper_ir as wir

CALLS = (500, 1000, 2000, 5000)
LARGEST_SECONDS = 60.0  #: limit for 2,000 calls
LARGEST_MEMORY = 4 << 30  #: limit for any compiler process, at 5,000 calls
LARGEST_EXPONENT = 1.3

_KERNEL = """\
#include <cstdint>
extern "C" void kernel(const float* x, float* y, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * NUMBERf;
}
"""
_ADDMM = (
    "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1,"
    " Tensor(a!) out) -> Tensor(a!)"
)


def long_program(calls: int, salt: str) -> wir.Program:
    """Return a chain of ``calls`` calls, each reading the previous one's output."""
    b = wir.Builder(f"long_{salt}")
    value = b.input("x", "f32", (16, 16))
    weight = b.input("w", "f32", (16, 16))
    kernels = [
        b.cpp_kernel(
            f"scale_{index}",
            f"// {salt}\n" + _KERNEL.replace("NUMBER", f"0.{index + 5}"),
            reads=[("x", "f32")],
            writes=[("y", "f32")],
            scalars=["n"],
        )
        for index in range(4)
    ]
    for index in range(calls):
        out = b.allocate("f32", (16, 16))
        if index % 2:
            b.extern(_ADDMM, value, value, weight, out=out)
        else:
            b.call(kernels[index // 2 % 4], value, out, 256)
        value = out
    b.returns(value)
    return b.build()


def measure(calls: int) -> dict[str, float]:
    """Build a program of ``calls`` calls; return seconds and the largest process's bytes."""
    program = wir.plan_memory(long_program(calls, f"{calls}_{time.time_ns()}"))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        artifact: Any = wir.emit(program, "cpp")
        emitted = time.perf_counter()
        library = artifact.export(Path(folder) / "m.so")
        done = time.perf_counter()
        runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1)
        runner.run([torch.randn(16, 16), torch.randn(16, 16)])
        size = library.stat().st_size
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "calls": calls,
        "files": len(artifact.sources),
        "emit": emitted - start,
        "build": done - emitted,
        "memory": memory,
        "bytes": size,
    }


def main() -> int:
    """Measure each length, print a table and report whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="*", type=int, default=list(CALLS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    measure(10)  # build what all programs share
    found = [measure(calls) for calls in given.calls]
    first, last = found[0], found[-1]
    exponent = 1.0
    if first["calls"] != last["calls"]:
        exponent = math.log(last["build"] / first["build"]) / math.log(
            last["calls"] / first["calls"]
        )
    if given.json:
        print(json.dumps({"programs": found, "exponent": exponent}, indent=1))
    else:
        print(" calls  files   emit s  build s  largest process  library")
        for row in found:
            print(
                f"{row['calls']:6}  {row['files']:5}  {row['emit']:7.2f}  {row['build']:7.1f}"
                f"  {row['memory'] / 2**20:12.0f} MB  {row['bytes'] / 1000:5.0f} kB"
            )
        print(f"exponent {exponent:.2f} (at most {LARGEST_EXPONENT})")
    slow = [row for row in found if row["calls"] <= 2000 and row["build"] > LARGEST_SECONDS]
    return int(bool(slow) or exponent > LARGEST_EXPONENT or last["memory"] > LARGEST_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
