"""Wrapper program zeroed, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[2, 4]

Results:
    a  float32[4, 4]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    reinterpret_tensor,
    run_main,
)

# Library ops.
aten_copy_ = torch.ops.aten.copy_.default

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (2, 4), (4, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    a = empty_strided_cpu((4, 4), (4, 1), torch.float32)
    a.zero_()
    top = reinterpret_tensor(a, (2, 4), (4, 1), 8)
    aten_copy_(top, x)
    return (a,)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (2, 4), (4, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
