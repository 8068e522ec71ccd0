"""Wrapper program index_put, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 5]
    i  int64[3]
    v  float32[4, 3]

Results:
    out  float32[4, 5]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    KeptViews,
    TensorSpec,
    random_tensor,
    run_main,
)

# Library ops.
aten_clone = torch.ops.aten.clone.default
aten_index_put_ = torch.ops.aten.index_put_.default
aten_scatter__value = torch.ops.aten.scatter_.value

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (4, 5), (5, 1)),
    TensorSpec("i", torch.int64, (3,), (1,)),
    TensorSpec("v", torch.float32, (4, 3), (3, 1)),
)

# Memory and views kept between calls.
kept_views = KeptViews(((3, 1), (1, 1), 0))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, i, v = args
    args.clear()
    (j,) = kept_views.of(i)
    out = aten_clone(x)
    del x
    aten_index_put_(out, [None, i], v, True)
    del v
    aten_scatter__value(out, 1, j, 9.0)
    return (out,)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float32, (4, 5), (5, 1)),
        random_tensor(torch.int64, (3,), (1,)),
        random_tensor(torch.float32, (4, 3), (3, 1)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
