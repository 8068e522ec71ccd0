"""Wrapper program complex_numbers, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  complex64[4]

Results:
    a  complex64[4]
    b  float32[4, 2]
    c  float32[3] strides [2]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    random_tensor,
    reinterpret_as,
    run_main,
)

# Library ops.
aten_mul_Tensor = torch.mul
aten_view_as_real = torch.view_as_real

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.complex64, (4,), (1,)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    a = aten_mul_Tensor(x, x)
    del x
    b = aten_view_as_real(a)
    c = reinterpret_as(a, torch.float32, (3,), (2,), 12)
    return (a, b, c)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.complex64, (4,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
