"""Wrapper program asserts, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x   float32[s0, 4] strides [8, 2]
    y   int64[s1]
    z0  float

Results:
    x  float32[s0, 4] strides [8, 2]
    y  int64[s1]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_number,
    check_symbol,
    check_that,
    random_tensor,
    refuse_misaligned,
    run_main,
)

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (None, 4), (8, 2)),
    TensorSpec("y", torch.int64, (None,), (1,)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    x, y, z0 = args
    args.clear()
    check_inputs(x, y)
    check_number("z0", z0, float)
    s0 = x.size(0)
    s1 = y.size(0)
    if x.data_ptr() % 16:
        refuse_misaligned(x, "x", 16)
    check_that(s0 % 4 == 0, "the batch is a multiple of four", s0=s0)
    check_that(
        s0 >= 2 and s0 <= 1024 and s1 != 3,
        "s0 >= 2 and s0 <= 1024 and s1 != 3",
        s0=s0,
        s1=s1,
    )
    check_that(
        s0 == 2 * s1 or s0 < s1, 'a "quoted" message\nof two lines', s0=s0, s1=s1
    )
    check_that(z0 > -0.5, "z0 > -0.5", z0=z0)
    if s0 < 1:
        check_symbol("s0", s0, 1, None, "size 0 of 'x'")
    if s1 < 1:
        check_symbol("s1", s1, 1, None, "size 0 of 'y'")
    return (x, y)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 8
    s1 = 4
    z0 = 1.0
    return [
        random_tensor(torch.float32, (s0, 4), (8, 2)),
        random_tensor(torch.int64, (s1,), (1,)),
        z0,
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
