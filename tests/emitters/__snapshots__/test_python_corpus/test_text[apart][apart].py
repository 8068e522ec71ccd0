"""Wrapper program apart, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    a  float32[s0]
    b  float32[s0]

Results:
    d  float32[s0]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_apart,
    check_layout,
    check_symbol,
    random_tensor,
    run_main,
)

cpu = torch.device("cpu")

# Library ops.
aten_add__Tensor = torch.ops.aten.add_.Tensor
aten_add_Tensor = torch.add

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("a", torch.float32, (None,), (1,)),
    TensorSpec("b", torch.float32, (None,), (1,)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    a, b = args
    args.clear()
    s0 = a.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'a'")
    check_layout(b, "b", torch.float32, cpu, (s0,), (1,))
    check_apart(("a", "b"), 1, a, b)
    c = aten_add__Tensor(a, b)
    d = aten_add_Tensor(a, b)
    return (d,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [
        random_tensor(torch.float32, (s0,), (1,)),
        random_tensor(torch.float32, (s0,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
