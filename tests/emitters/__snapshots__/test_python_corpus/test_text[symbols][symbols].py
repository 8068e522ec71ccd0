"""Wrapper program symbols, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    s0  int
    z0  float
    x   float32[s1, 3] strides [s2, 1]
    n   int64[]
    v   float32[1]
    c   bool[]

Results:
    s0
    s1
    s2
    s3
    s4
    u0
    u1
    z0
    z1
    z2
    b0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_number,
    check_symbol,
    random_tensor,
    run_main,
)

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (None, 3), (None, 1)),
    TensorSpec("n", torch.int64, (), ()),
    TensorSpec("v", torch.float32, (1,), (1,)),
    TensorSpec("c", torch.bool, (), ()),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    s0, z0, x, n, v, c = args
    args.clear()
    check_inputs(x, n, v, c)
    check_number("s0", s0, int, 1)
    check_number("z0", z0, float)
    s1 = x.size(0)
    s2 = x.stride(0)
    s4 = x.storage_offset()
    if s1 > 512:
        check_symbol("s1", s1, None, 512, "size 0 of 'x'")
    if s2 > 100:
        check_symbol("s2", s2, None, 100, "stride 0 of 'x'")
    u0 = n.item()
    z2 = v.item()
    b0 = c.item()
    s3 = s0 * s1 + 1
    u1 = max(s0, u0) // 2
    z1 = 0.5 * z0 + s0 / 3
    return (s0, s1, s2, s3, s4, u0, u1, z0, z1, z2, b0)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 6
    s1 = 4
    s2 = 2
    z0 = 1.0
    return [
        s0,
        z0,
        random_tensor(torch.float32, (s1, 3), (s2, 1)),
        random_tensor(torch.int64, (), ()),
        random_tensor(torch.float32, (1,), (1,)),
        random_tensor(torch.bool, (), ()),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
