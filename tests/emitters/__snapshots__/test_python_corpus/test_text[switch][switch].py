"""Wrapper program switch, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    i  int32[1]
    x  float32[s0, 2]

Results:
    b   float32[s0, 2]
    u0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_symbol,
    random_tensor,
    run_main,
)

# Library ops.
aten_relu = torch.relu
aten_neg = torch.neg
aten_mul_Scalar = torch.ops.aten.mul.Scalar

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("i", torch.int32, (1,), (1,)),
    TensorSpec("x", torch.float32, (None, 2), (2, 1)),
)


def switch_4_case0(x0, s0):
    y0 = aten_relu(x0)
    return (y0, s0)


def switch_4_case1(x1, s0):
    y1 = aten_neg(x1)
    return (y1, 2 * s0)


def switch_4_0_case0(x3, s1, s0):
    y3 = aten_mul_Scalar(x3, s1)
    return (y3,)


def switch_4_0_case1(x4, u1, s0):
    y4 = aten_mul_Scalar(x4, s0 + u1)
    return (y4,)


def switch_4_case2(x2, s0):
    branch = (switch_4_0_case0, switch_4_0_case1)[max(0, min(s0 - 4, 1))]
    (y2,) = branch(x2, s0, s0)
    return (y2, 7)


def switch_5_case0(x5, s0):
    y5 = aten_neg(x5)
    return (y5,)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    i, x = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    branch_1 = (switch_4_case0, switch_4_case1, switch_4_case2)[max(0, min(int(i), 2))]
    a, u0 = branch_1(x, s0)
    branch_2 = (switch_5_case0,)[max(0, min(u0, 0))]
    (b,) = branch_2(a, s0)
    del a
    return (b, u0)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [
        random_tensor(torch.int32, (1,), (1,)),
        random_tensor(torch.float32, (s0, 2), (2, 1)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
