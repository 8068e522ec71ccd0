"""Wrapper program list_results, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[6, 4]

Results:
    a    float32[2, 4]
    b    float32[2, 4]
    row  float32[4]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_length,
    random_tensor,
    run_main,
)

# Library ops.
aten_split_Tensor = torch.ops.aten.split.Tensor
aten_unbind_int = torch.ops.aten.unbind.int

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (6, 4), (4, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    result = aten_split_Tensor(x, 2)
    check_length(result, 3, "aten::split.Tensor")
    a = result[0]
    b = result[1]
    c = result[2]
    del result
    result_1 = aten_unbind_int(c)
    check_length(result_1, 2, "aten::unbind.int")
    row = result_1[1]
    del result_1
    return (a, b, row)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (6, 4), (4, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
