"""Wrapper program while_number, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[8]

Results:
    u4
    y   float32[8]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    run_main,
    run_while,
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
check_inputs = InputChecks(TensorSpec("x", torch.float32, (8,), (1,)))


def while_2_condition(u0, c):
    return (u0 < 3,)


def cond_2_0_then(b0):
    d0 = empty_strided_cpu((8,), (1,), torch.float32)
    double_it(b0, d0, 8)
    return (d0,)


def cond_2_0_else(b1):
    d1 = empty_strided_cpu((8,), (1,), torch.float32)
    relu(b1, d1, 8)
    return (d1,)


def while_2_body(u1, b):
    branch = cond_2_0_then if (u1 % 2 == 0) else cond_2_0_else
    (next,) = branch(b)
    u2 = u1 + 1
    return (u2, next)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    u4, y = run_while(while_2_condition, while_2_body, (0, x), ())
    return (u4, y)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (8,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
