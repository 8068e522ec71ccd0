"""Wrapper program pools, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[16]

Results:
    sum  float32[4, 4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    Scratch,
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
relu, double_it, add = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (16,), (1,)))

# Memory and views kept between calls.
scratch = Scratch(((128,), (1,), torch.uint8))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    spare = scratch.take()
    pool = spare[0]
    pool_float32 = reinterpret_as(pool, torch.float32, (0,), (1,), 0)
    a = reinterpret_tensor(pool_float32, (16,), (1,), 0)
    relu(x, a, 16)
    b = reinterpret_tensor(pool_float32, (16,), (1,), 16)
    double_it(a, b, 16)
    del a
    c = reinterpret_tensor(pool_float32, (4, 4), (4, 1), 0)
    double_it(b, c, 16)
    del x
    sum = empty_strided_cpu((4, 4), (4, 1), torch.float32)
    add(b, c, sum, 16)
    del b
    del c
    del pool, pool_float32
    scratch.give(spare)
    return (sum,)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return scratch.release()


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (16,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
