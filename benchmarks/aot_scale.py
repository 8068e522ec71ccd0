"""Time and memory to build libraries of long programs: 500 to 5,000 calls.

    python benchmarks/aot_scale.py              # 500, 1,000, 2,000 and 5,000 calls
    python benchmarks/aot_scale.py 1000 --json  # other numbers

A call is an ``addmm`` or one of four kernels, in turn. Nothing of a program is cached; what is
the same for all programs (the runtime part, precompiled headers) is. Seconds are wall time, as many
compilers at once as there are processors; memory is that of the largest compiler. The exponent is
that of time over calls between the shortest and the longest program: 1 is linear.
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

import torch

import wrapper_ir as wir

CALLS = (500, 1000, 2000, 5000)
LARGEST_SECONDS = 60.0  #: for 2,000 calls
LARGEST_MEMORY = 4 << 30  #: of any compiler process, for 5,000 calls
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
    """A chain of so many calls, each reading what the last one wrote."""
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
    """Build a program of so many calls; return seconds, and bytes of the largest process."""
    program = wir.plan_memory(long_program(calls, f"{calls}_{time.time_ns()}"))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        artifact = wir.emit(program, "cpp")
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
    """Measure each length, print a table, say whether the bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="*", type=int, default=list(CALLS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    measure(10)  # what is the same for all programs
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
