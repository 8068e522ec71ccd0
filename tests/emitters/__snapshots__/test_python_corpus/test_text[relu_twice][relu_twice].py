"""Wrapper program relu_twice, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 64]

Results:
    buf1  float32[4, 64]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    Scratch,
    TensorSpec,
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
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4, 64), (64, 1)))

# Memory and views kept between calls.
scratch = Scratch(((4, 64), (64, 1), torch.float32))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    spare = scratch.take()
    buf0 = spare[0]
    relu(x, buf0, 256)
    del x
    buf1 = empty_strided_cpu((4, 64), (64, 1), torch.float32)
    double_it(buf0, buf1, 256)
    del buf0
    scratch.give(spare)
    return (buf1,)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return scratch.release()


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4, 64), (64, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
