"""Wrapper program views, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 6]

Results:
    transposed  float32[6, 4] strides [1, 6]
    row         float32[6]
    bits        int32[6]
    halves      float16[12]
    expanded    float32[3, 6] strides [0, 1]
    windows     float32[5, 2] strides [1, 1]
    column      float32[4] strides [6]
    x           float32[4, 6]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    reinterpret_as,
    reinterpret_tensor,
    run_main,
)

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "iota",
    ("float*", "int64_t", "double"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* out_ptr0, const int64_t n, const double step)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = static_cast<float>(step * i);
}
""",
)
(iota,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4, 6), (6, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    buf0 = empty_strided_cpu((4, 6), (6, 1), torch.float32)
    iota(buf0, 24, 1.0)
    transposed = reinterpret_tensor(buf0, (6, 4), (1, 6), 0)
    row = reinterpret_tensor(buf0, (6,), (1,), 12)
    bits = reinterpret_as(row, torch.int32, (6,), (1,), 0)
    halves = reinterpret_as(row, torch.float16, (12,), (1,), 0)
    expanded = reinterpret_tensor(buf0, (3, 6), (0, 1), 0)
    windows = reinterpret_tensor(buf0, (5, 2), (1, 1), 0)
    column = reinterpret_tensor(x, (4,), (6,), 1)
    return (transposed, row, bits, halves, expanded, windows, column, x)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4, 6), (6, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
