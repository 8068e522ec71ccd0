"""Wrapper program comments, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0]

Constants:
    c  float32[1]  '; import os; os._exit(1) #

Results:
    x  float32[s0]
    c  float32[1]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_symbol,
    check_that,
    make_constants,
    random_tensor,
    run_main,
)

# Constants, set by the code that loads this file.
c = None
CONSTANTS = (TensorSpec("c", torch.float32, (1,), (1,)),)

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None,), (1,)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    # ordinary
    #
    # */ int main() { return 1; } /*
    # ''' + exit(1) + '''
    # a line
    # and another, / a backslash at the end /
    # trailing blanks
    # not ASCII: ?, ??; a bidirectional override: ?; a NUL: ?
    # %x = allocate : f32[4] @cpu
    # ; not a remark, loc(#0)
    s0 = x.size(0)
    check_that(s0 >= 1, "{x} %d \x22\x22\x22\n*/ '", s0=s0)
    # ??/ a trigraph
    if s0 < 1:
        check_symbol("s0", s0, 1, None, "size 0 of 'x'")
    return (x, c)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.float32, (s0,), (1,))]


if __name__ == "__main__":
    make_constants(globals(), CONSTANTS)
    run_main(call, make_inputs)
