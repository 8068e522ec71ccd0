"""Wrapper program multi_output, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 6]

Results:
    values   float32[4]
    indices  int64[4]
    normed   float32[4, 6]
    rstd     float32[4, 1]
    only     float32[4, 1]
"""

import torch

from wrapper_ir.runtime import InputChecks, TensorSpec, random_tensor, run_main

# Library ops.
aten_max_dim = torch.max
aten_native_layer_norm = torch.native_layer_norm
aten_var_mean_correction = torch.ops.aten.var_mean.correction

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4, 6), (6, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    values, indices = aten_max_dim(x, 1)
    normed, mean, rstd = aten_native_layer_norm(x, (6,), None, None, 1e-05)
    del mean
    result = aten_var_mean_correction(x, (1,), correction=1, keepdim=True)
    only = result[1]
    del result
    return (values, indices, normed, rstd, only)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4, 6), (6, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
