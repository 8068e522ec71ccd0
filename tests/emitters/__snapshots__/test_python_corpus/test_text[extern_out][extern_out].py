"""Wrapper program extern_out, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 8]

Constants:
    weight  float32[3, 8]  linear.weight
    bias    float32[3]  linear.bias

Results:
    buf1  float32[4, 3]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    KeptViews,
    Scratch,
    TensorSpec,
    empty_strided_cpu,
    make_constants,
    random_tensor,
    run_main,
)

# Library ops.
aten_addmm_out = torch.addmm
aten_relu_out = torch.ops.aten.relu.out

# Constants, set by the code that loads this file.
weight = None
bias = None
CONSTANTS = (
    TensorSpec("weight", torch.float32, (3, 8), (8, 1)),
    TensorSpec("bias", torch.float32, (3,), (1,)),
)

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4, 8), (8, 1)))

# Memory and views kept between calls.
kept_views = KeptViews(((8, 3), (1, 8), 0))
scratch = Scratch(((4, 3), (3, 1), torch.float32))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    (weight_t,) = kept_views.of(weight)
    spare = scratch.take()
    buf0 = spare[0]
    aten_addmm_out(bias, x, weight_t, alpha=1, beta=1, out=buf0)
    del x
    buf1 = empty_strided_cpu((4, 3), (3, 1), torch.float32)
    aten_relu_out(buf0, out=buf1)
    del buf0
    scratch.give(spare)
    return (buf1,)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return scratch.release()


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4, 8), (8, 1))]


if __name__ == "__main__":
    make_constants(globals(), CONSTANTS)
    run_main(call, make_inputs)
