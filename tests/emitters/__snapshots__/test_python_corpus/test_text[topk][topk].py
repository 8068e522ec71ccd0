"""Wrapper program topk, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x   float64[s0, 9]
    s1  int

Results:
    values   float64[s0, s1]
    indices  int64[s0, s1]
    again    float64[s0, s1]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_number,
    check_symbol,
    check_that,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Library ops.
aten_topk = torch.topk
aten_gather_out = torch.gather

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float64, (None, 9), (9, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    x, s1 = args
    args.clear()
    check_inputs(x)
    check_number("s1", s1, int, 1, 9)
    s0 = x.size(0)
    check_that(s1 <= 9, "no more than a row has", s1=s1)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    values, indices = aten_topk(x, s1)
    again = empty_strided_cpu((s0, s1), (s1, 1), torch.float64)
    aten_gather_out(x, 1, indices, out=again)
    return (values, indices, again)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 3
    s1 = 2
    return [random_tensor(torch.float64, (s0, 9), (9, 1)), s1]


if __name__ == "__main__":
    run_main(call, make_inputs)
