"""Wrapper program constants, forward.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[2, 3]

Constants:
    weight  float32[3, 3]  0.weight
    head    float32[3, 3]  head.weight
    mean    float32[3]  1.running_mean
    table   int64[2]  _tensor_constant0
    tall    float32[3, 4] strides [1, 3]  a name with 'quotes' and a?tab

Results:
    d  float32[2, 4]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    make_constants,
    random_tensor,
    run_main,
)

# Library ops.
aten_mm = torch.mm
aten_mean_dim = torch.mean
aten_lerp__Scalar = torch.ops.aten.lerp_.Scalar
aten_index_Tensor = torch.ops.aten.index.Tensor

# Constants, set by the code that loads this file.
weight = None
head = None
mean = None
table = None
tall = None
CONSTANTS = (
    TensorSpec("weight", torch.float32, (3, 3), (3, 1)),
    TensorSpec("head", torch.float32, (3, 3), (3, 1)),
    TensorSpec("mean", torch.float32, (3,), (1,)),
    TensorSpec("table", torch.int64, (2,), (1,)),
    TensorSpec("tall", torch.float32, (3, 4), (1, 3)),
)

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (2, 3), (3, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    a = aten_mm(x, weight)
    del x
    b = aten_mm(a, head)
    del a
    now = aten_mean_dim(b, (0,))
    aten_lerp__Scalar(mean, now, 0.1)
    del now
    c = aten_mm(b, tall)
    del b
    d = aten_index_Tensor(c, [table])
    del c
    return (d,)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (2, 3), (3, 1))]


if __name__ == "__main__":
    make_constants(globals(), CONSTANTS)
    run_main(call, make_inputs)
