"""Wrapper program definitions_between, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4]

Results:
    b  float32[4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    Scratch,
    TensorSpec,
    random_tensor,
    run_main,
)

# Library ops.
aten_neg = torch.neg

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
    "add_one",
    ("float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* in_out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] += 1;
}
""",
)
relu, add_one = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4,), (1,)))

# Memory and views kept between calls.
scratch = Scratch(((4,), (1,), torch.float32))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    spare = scratch.take()
    a = spare[0]
    relu(x, a, 4)
    del x
    b = aten_neg(a)
    del a
    add_one(b, 4)
    scratch.give(spare)
    return (b,)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return scratch.release()


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
