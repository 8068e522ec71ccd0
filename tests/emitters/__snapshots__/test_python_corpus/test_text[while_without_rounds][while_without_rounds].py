"""Wrapper program while_without_rounds, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float64[0, 4]

Results:
    buf1  float64[0, 4]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    random_tensor,
    run_main,
    run_while,
)

# Library ops.
aten_clone = torch.ops.aten.clone.default
aten_cat_out = torch.cat

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float64, (0, 4), (4, 1)))


def while_3_condition(u0, p0):
    return (u0 < 0,)


def while_3_body(u1, p1):
    buf0 = aten_clone(p1)
    return (u1 + 1, buf0)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    u2, buf1 = run_while(while_3_condition, while_3_body, (0, x), ())
    aten_cat_out([x, x], 0, out=buf1)
    return (buf1,)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float64, (0, 4), (4, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
