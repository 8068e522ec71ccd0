"""Wrapper program bits, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  int64[4]
    c  complex64[3]

Results:
    words    int32[8]
    low      int32[4] strides [2]
    shorts   int16[4]
    bytes    uint8[4, 8]
    real     float32[3] strides [2]
    doubles  float64[3]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    random_tensor,
    reinterpret_as,
    run_main,
)

# Library ops.
aten_clone = torch.ops.aten.clone.default

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.int64, (4,), (1,)),
    TensorSpec("c", torch.complex64, (3,), (1,)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, c = args
    args.clear()
    own = aten_clone(x)
    words = reinterpret_as(own, torch.int32, (8,), (1,), 0)
    low = reinterpret_as(own, torch.int32, (4,), (2,), 0)
    shorts = reinterpret_as(own, torch.int16, (4,), (1,), 16)
    bytes = reinterpret_as(own, torch.uint8, (4, 8), (8, 1), 0)
    del x
    pairs = aten_clone(c)
    real = reinterpret_as(pairs, torch.float32, (3,), (2,), 0)
    doubles = reinterpret_as(pairs, torch.float64, (3,), (1,), 0)
    return (words, low, shorts, bytes, real, doubles)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.int64, (4,), (1,)),
        random_tensor(torch.complex64, (3,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
