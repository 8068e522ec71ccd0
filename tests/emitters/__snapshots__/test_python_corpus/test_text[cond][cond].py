"""Wrapper program cond, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 2]
    p  bool[]

Results:
    b  float32[s0, 2]
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
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (None, 2), (2, 1)),
    TensorSpec("p", torch.bool, (), ()),
)


def cond_3_then(x0, s1):
    y0 = empty_strided_cpu((s1, 2), (2, 1), torch.float32)
    relu(x0, y0, 2 * s1)
    return (y0,)


def cond_3_else(x1, s2):
    y1 = empty_strided_cpu((s2, 2), (2, 1), torch.float32)
    double_it(x1, y1, 2 * s2)
    return (y1,)


def cond_4_then(x2, s0):
    y2 = empty_strided_cpu((s0, 2), (2, 1), torch.float32)
    double_it(x2, y2, 2 * s0)
    return (y2,)


def cond_4_else(x3, s0):
    y3 = empty_strided_cpu((s0, 2), (2, 1), torch.float32)
    relu(x3, y3, 2 * s0)
    return (y3,)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, p = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    branch = cond_3_then if (s0 > 2) else cond_3_else
    (a,) = branch(x, s0)
    branch_1 = cond_4_then if p else cond_4_else
    (b,) = branch_1(a, s0)
    del a
    return (b,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [
        random_tensor(torch.float32, (s0, 2), (2, 1)),
        random_tensor(torch.bool, (), ()),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
