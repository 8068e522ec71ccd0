"""Wrapper program embedding, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    i  int32[s0, 2]

Constants:
    table  float32[8, 3]  table.weight

Results:
    bag  float32[s0, 3]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_symbol,
    empty_strided_cpu,
    make_constants,
    random_tensor,
    run_main,
)

# Library ops.
aten_embedding = torch.embedding
aten_sum_IntList_out = torch.ops.aten.sum.IntList_out

# Constants, set by the code that loads this file.
table = None
CONSTANTS = (TensorSpec("table", torch.float32, (8, 3), (3, 1)),)

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("i", torch.int32, (None, 2), (2, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (i,) = args
    args.clear()
    s0 = i.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'i'")
    rows = aten_embedding(table, i, 7)
    del i
    bag = empty_strided_cpu((s0, 3), (3, 1), torch.float32)
    aten_sum_IntList_out(rows, (1,), dtype=torch.float32, out=bag)
    del rows
    return (bag,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.int32, (s0, 2), (2, 1))]


if __name__ == "__main__":
    make_constants(globals(), CONSTANTS)
    run_main(call, make_inputs)
