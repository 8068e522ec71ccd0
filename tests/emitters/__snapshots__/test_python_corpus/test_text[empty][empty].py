"""Wrapper program empty, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[3]

Results:
    x      float32[3]
    None
    3
    -2
    2.5
    1e-05
    True
    False
    inf
    -inf
"""

import torch

from wrapper_ir.runtime import InputChecks, TensorSpec, random_tensor, run_main

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (3,), (1,)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    return (x, None, 3, -2, 2.5, 1e-05, True, False, float("inf"), float("-inf"))


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (3,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
