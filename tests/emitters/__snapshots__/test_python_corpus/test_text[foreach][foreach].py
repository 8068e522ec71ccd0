"""Wrapper program foreach, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[2, 3]
    y  float64[3]

Results:
    z  float32[4, 3]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Library ops.
aten__foreach_add__Scalar = torch.ops.aten._foreach_add_.Scalar
aten_cat_out = torch.cat

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (2, 3), (3, 1)),
    TensorSpec("y", torch.float64, (3,), (1,)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, y = args
    args.clear()
    aten__foreach_add__Scalar([x, y], 1.5)
    del y
    z = empty_strided_cpu((4, 3), (3, 1), torch.float32)
    aten_cat_out([x, x], out=z)
    return (z,)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float32, (2, 3), (3, 1)),
        random_tensor(torch.float64, (3,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
