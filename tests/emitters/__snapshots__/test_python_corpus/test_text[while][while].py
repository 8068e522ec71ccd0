"""Wrapper program while, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    i      int64[]
    total  float32[s0]
    x      float32[s0]

Results:
    count  int64[]
    sum    float32[s0]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_layout,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    run_main,
    run_while,
)

cpu = torch.device("cpu")

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
    "add",
    ("const float*", "const float*", "float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0, const float* in_ptr1, float* out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] + in_ptr1[i];
}
""",
)
less_1, add = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("i", torch.int64, (), ()),
    TensorSpec("total", torch.float32, (None,), (1,)),
    TensorSpec("x", torch.float32, (None,), (1,)),
)


def while_6_condition(i0, t0, x0, s0):
    less = empty_strided_cpu((), (), torch.bool)
    less_1(i0, less, 5)
    return (less,)


def while_6_body(i1, t1, x1, s0):
    next = aten_add_Scalar(i1, 1)
    more = empty_strided_cpu((s0,), (1,), torch.float32)
    add(t1, x1, more, s0)
    return (next, more)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    i, total, x = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    check_layout(total, "total", torch.float32, cpu, (s0,), (1,))
    count, sum = run_while(while_6_condition, while_6_body, (i, total), (x, s0))
    return (count, sum)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [
        random_tensor(torch.int64, (), ()),
        random_tensor(torch.float32, (s0,), (1,)),
        random_tensor(torch.float32, (s0,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
