"""Measure kernel calls and input checks against Inductor's binding and torch's assertion.

.venv/bin/python benchmarks/binding.py
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import timeit
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table
from torch._C._dynamo.guards import assert_size_stride
from torch._inductor.codecache import CppPythonBindingsCodeCache

from wrapper_ir.runtime import InputChecks, TensorSpec, load_kernels
from wrapper_ir.toolchain.source import CppSource

if TYPE_CHECKING:
    from collections.abc import Callable

_CODE = """#include <cstdint>
extern "C" void kernel(const float* a, const float* b, float* c, const int64_t n) {}
"""
_TYPES = ("const float*", "const float*", "float*", "const int64_t")
_ROUNDS = 21


def _nanoseconds(call: Callable[[], object], number: int = 20_000) -> float:
    return timeit.timeit(call, number=number) / number * 1e9


def _paired(ours: Callable[[], object], stock: Callable[[], object]) -> tuple[float, float, float]:
    """Return the median of each side and of the ratios within a round."""
    rounds = [(_nanoseconds(ours), _nanoseconds(stock)) for _ in range(_ROUNDS)]
    ratio = statistics.median(a / b for a, b in rounds)
    mine, theirs = (statistics.median(side) for side in zip(*rounds, strict=True))
    return mine, theirs, ratio


def _call() -> tuple[float, float, float]:
    (ours,) = load_kernels(CppSource("nothing", _CODE, _TYPES))
    stock = CppPythonBindingsCodeCache.load_pybinding(list(_TYPES), _CODE)
    x = torch.zeros(4)
    return _paired(lambda: ours(x, x, x, 4), lambda: stock(x, x, x, 4))


def _checks() -> tuple[float, float, float]:
    tensors = [torch.zeros(4, 3) for _ in range(8)]
    specs = (TensorSpec(f"x{i}", torch.float32, (4, 3), (3, 1)) for i in range(8))
    check = InputChecks(*specs)
    check(*tensors)

    def stock() -> None:
        for tensor in tensors:
            assert_size_stride(tensor, (4, 3), (3, 1))

    return _paired(lambda: check(*tensors), stock)


def main() -> None:
    """Run the measurements and print them."""
    table = Table("what", "ours ns", "stock ns", "ratio", title="Bindings and checks")
    for name, found in (("call of a kernel, 4 arguments", _call()), ("8 inputs", _checks())):
        ours, stock, ratio = found
        table.add_row(name, f"{ours:.0f}", f"{stock:.0f}", f"{ratio:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
