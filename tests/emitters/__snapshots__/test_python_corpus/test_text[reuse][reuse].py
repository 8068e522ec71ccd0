"""Wrapper program reuse, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 6], donated

Results:
    b  float32[2, 3, 4]
    f  int64[12]
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

# Library ops.
aten_zero_ = torch.ops.aten.zero_.default

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "add_one",
    ("float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* in_out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] += 1;
}
""",
)
(add_one,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4, 6), (6, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    a = reinterpret_tensor(x, (24,), (1,), 0)
    del x
    add_one(a, 24)
    b = reinterpret_tensor(a, (2, 3, 4), (12, 4, 1), 0)
    del a
    add_one(b, 24)
    c = empty_strided_cpu((12,), (1,), torch.float64)
    aten_zero_(c)
    d = reinterpret_as(c, torch.float32, (24,), (1,), 0)
    del c
    add_one(d, 24)
    e = reinterpret_tensor(d, (3, 5), (5, 1), 0)
    del d
    add_one(e, 15)
    f = reinterpret_as(e, torch.int64, (12,), (1,), 0)
    del e
    aten_zero_(f)
    return (b, f)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4, 6), (6, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
