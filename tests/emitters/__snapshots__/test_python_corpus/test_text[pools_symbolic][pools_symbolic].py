"""Wrapper program pools_symbolic, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 4]

Results:
    sum  float32[s0, 4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    reinterpret_as,
    reinterpret_tensor,
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
    "add",
    ("const float*", "const float*", "float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0, const float* in_ptr1, float* out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] + in_ptr1[i];
}
""",
)
relu, add = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None, 4), (4, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 4096:
        check_symbol("s0", s0, 1, 4096, "size 0 of 'x'")
    pool = empty_strided_cpu((32 * s0,), (1,), torch.uint8)
    pool_float32 = reinterpret_as(pool, torch.float32, (0,), (1,), 0)
    a = reinterpret_tensor(pool_float32, (s0, 4), (4, 1), 0)
    relu(x, a, 4 * s0)
    b = reinterpret_tensor(pool_float32, (4 * s0,), (1,), 4 * s0)
    relu(a, b, 4 * s0)
    del x
    sum = empty_strided_cpu((s0, 4), (4, 1), torch.float32)
    add(a, b, sum, 4 * s0)
    del b
    del a
    del pool, pool_float32
    return (sum,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 16
    return [random_tensor(torch.float32, (s0, 4), (4, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
