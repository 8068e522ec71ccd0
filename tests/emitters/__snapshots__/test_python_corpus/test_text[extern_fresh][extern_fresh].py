"""Wrapper program extern_fresh, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 8]

Results:
    b  float32[s0, 8]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_result,
    check_symbol,
    random_tensor,
    run_main,
)

# Library ops.
aten_add_Tensor = torch.add
aten_cumsum = torch.cumsum

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None, 8), (8, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 512:
        check_symbol("s0", s0, 1, 512, "size 0 of 'x'")
    a = aten_add_Tensor(x, x, alpha=0.5)
    del x
    b = aten_cumsum(a, 1)
    del a
    check_result(b, "aten.cumsum", torch.float32, (s0, 8), (8, 1))
    return (b,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.float32, (s0, 8), (8, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
