"""Wrapper program effects, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x   float32[4]
    ok  bool[]

Results:
    None
"""

import torch

from wrapper_ir.runtime import InputChecks, TensorSpec, random_tensor, run_main

# Library ops.
aten__assert_async_msg = torch.ops.aten._assert_async.msg
aten_mul__Scalar = torch.ops.aten.mul_.Scalar
aten_neg = torch.neg

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (4,), (1,)), TensorSpec("ok", torch.bool, (), ())
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, ok = args
    args.clear()
    aten__assert_async_msg(ok, 'it has to be "true"')
    del ok
    unused = aten_neg(x)
    del unused
    aten_mul__Scalar(x, 3)
    return (None,)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4,), (1,)), random_tensor(torch.bool, (), ())]


if __name__ == "__main__":
    run_main(call, make_inputs)
