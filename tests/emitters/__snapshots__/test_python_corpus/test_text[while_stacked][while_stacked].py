"""Wrapper program while_stacked, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    i  int64[]
    x  float32[3]

Results:
    counts  int64[u0]
    rounds  float32[u0, 3]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    run_main,
    run_while_stacked,
)

# Library ops.
aten_add_Scalar = torch.ops.aten.add.Scalar

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "less_1",
    ("const int64_t*", "bool*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const int64_t* in_ptr0, bool* out_ptr0, const int64_t limit)
{
    out_ptr0[0] = in_ptr0[0] < limit;
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
less_1, double_it = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("i", torch.int64, (), ()), TensorSpec("x", torch.float32, (3,), (1,))
)


def while_3_condition(i0, x0):
    less = empty_strided_cpu((), (), torch.bool)
    less_1(i0, less, 4)
    return (less,)


def while_3_body(i1, x1):
    next = aten_add_Scalar(i1, 1)
    y = empty_strided_cpu((3,), (1,), torch.float32)
    double_it(x1, y, 3)
    return (next, y)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    i, x = args
    args.clear()
    counts, rounds = run_while_stacked(while_3_condition, while_3_body, (i, x), ())
    u0 = counts.size(0)
    return (counts, rounds)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.int64, (), ()),
        random_tensor(torch.float32, (3,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
