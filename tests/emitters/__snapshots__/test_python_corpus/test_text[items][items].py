"""Wrapper program items, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    f64   float64[]
    f16   float16[]
    bf16  bfloat16[]
    i32   int32[]
    i16   int16[]
    i8    int8[]
    u8    uint8[]
    bool  bool[]

Results:
    y             float16[u3, 2]
    z0
    z1
    z2
    u0 + u1 + u2
    u3
    b0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_that,
    random_tensor,
    run_main,
)

# Library ops.
aten_ones = torch.ops.aten.ones.default

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("f64", torch.float64, (), ()),
    TensorSpec("f16", torch.float16, (), ()),
    TensorSpec("bf16", torch.bfloat16, (), ()),
    TensorSpec("i32", torch.int32, (), ()),
    TensorSpec("i16", torch.int16, (), ()),
    TensorSpec("i8", torch.int8, (), ()),
    TensorSpec("u8", torch.uint8, (), ()),
    TensorSpec("bool", torch.bool, (), ()),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    f64, f16, bf16, i32, i16, i8, u8, bool_1 = args
    args.clear()
    z0 = f64.item()
    z1 = f16.item()
    z2 = bf16.item()
    u0 = i32.item()
    u1 = i16.item()
    u2 = i8.item()
    u3 = u8.item()
    b0 = bool_1.item()
    check_that(u3 >= 0 and u3 <= 16, "a length", u3=u3)
    del f64, f16, bf16, i32, i16, i8, u8, bool_1
    y = aten_ones((u3, 2), dtype=torch.float16)
    return (y, z0, z1, z2, u0 + u1 + u2, u3, b0)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float64, (), ()),
        random_tensor(torch.float16, (), ()),
        random_tensor(torch.bfloat16, (), ()),
        random_tensor(torch.int32, (), ()),
        random_tensor(torch.int16, (), ()),
        random_tensor(torch.int8, (), ()),
        random_tensor(torch.uint8, (), ()),
        random_tensor(torch.bool, (), ()),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
