"""Wrapper program specs, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4]

Results:
    y  float32[4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
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
(relu,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4,), (1,)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    y = empty_strided_cpu((4,), (1,), torch.float32)
    relu(x, y, 4)
    return (y,)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
