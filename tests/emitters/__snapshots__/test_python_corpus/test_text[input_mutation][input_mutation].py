"""Wrapper program input_mutation, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 4]
    y  float32[16]
    z  float32[2, 8]

Results:
    x  float32[4, 4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    random_tensor,
    reinterpret_tensor,
    run_main,
)

# Library ops.
aten_add__Tensor = torch.ops.aten.add_.Tensor
aten_copy_ = torch.ops.aten.copy_.default

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
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (4, 4), (4, 1)),
    TensorSpec("y", torch.float32, (16,), (1,)),
    TensorSpec("z", torch.float32, (2, 8), (8, 1)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, y, z = args
    args.clear()
    aten_add__Tensor(x, x, alpha=2)
    add_one(y, 16)
    row = reinterpret_tensor(z, (8,), (1,), 8)
    add_one(row, 8)
    y2 = reinterpret_tensor(y, (4, 4), (4, 1), 0)
    del z, row
    aten_copy_(y2, x)
    return (x,)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float32, (4, 4), (4, 1)),
        random_tensor(torch.float32, (16,), (1,)),
        random_tensor(torch.float32, (2, 8), (8, 1)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
