"""Wrapper program cond_nested, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0]

Results:
    a   float32[s0]
    u0
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "relu",
    ("const float*", "float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] > 0 ? in_ptr0[i] : 0;
}
""",
)
kernels.add(
    "double_it",
    ("const float*", "float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = 2 * in_ptr0[i];
}
""",
)
relu, double_it = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None,), (1,)))


def cond_3_0_then(x1, s0):
    z0 = empty_strided_cpu((s0,), (1,), torch.float32)
    relu(x1, z0, s0)
    return (z0, 1)


def cond_3_0_else(x2, s0):
    z1 = empty_strided_cpu((s0,), (1,), torch.float32)
    double_it(x2, z1, s0)
    return (z1, 2)


def cond_3_then(x0, s0):
    branch = cond_3_0_then if (s0 % 2 == 0) else cond_3_0_else
    y0, u1 = branch(x0, s0)
    return (y0, 10 * u1)


def cond_3_else(x3, s0):
    y1 = empty_strided_cpu((s0,), (1,), torch.float32)
    double_it(x3, y1, s0)
    return (y1, -s0)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    branch_1 = cond_3_then if (s0 < 8) else cond_3_else
    a, u0 = branch_1(x, s0)
    return (a, u0)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.float32, (s0,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
