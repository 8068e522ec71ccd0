"""Wrapper program no_results, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    random_tensor,
    run_main,
)

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
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4,), (1,)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    add_one(x, 4)
    return ()


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
