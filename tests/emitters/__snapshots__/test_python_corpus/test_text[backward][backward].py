"""Wrapper program backward, backward.

Written by wrapper_ir, to be read and edited.

Inputs:
    weight  float32[3, 8]
    saved   float32[4, 8], donated
    grad    float32[4, 3]

Results:
    dw    float32[3, 8]
    db    float32[3]
    dx    float32[4, 8]
    None
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
aten_mm = torch.mm
aten_mm_out = torch.mm
aten_sum_dim_IntList = torch.sum

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
    TensorSpec("weight", torch.float32, (3, 8), (8, 1)),
    TensorSpec("saved", torch.float32, (4, 8), (8, 1)),
    TensorSpec("grad", torch.float32, (4, 3), (3, 1)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    weight, saved, grad = args
    args.clear()
    grad_t = reinterpret_tensor(grad, (3, 4), (1, 3), 0)
    dw = aten_mm(grad_t, saved)
    db = aten_sum_dim_IntList(grad, (0,))
    dx = saved
    del saved
    aten_mm_out(grad, weight, out=dx)
    del grad, grad_t
    del weight
    return (dw, db, dx, None)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float32, (3, 8), (8, 1)),
        random_tensor(torch.float32, (4, 8), (8, 1)),
        random_tensor(torch.float32, (4, 3), (3, 1)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
