"""Wrapper program residual, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 6]

Constants:
    w1  float32[6, 12]  up.weight
    b1  float32[12]  up.bias
    w2  float32[12, 6]  down.weight

Results:
    y  float32[s0, 6]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_symbol,
    empty_strided_cpu,
    make_constants,
    random_tensor,
    run_main,
)

# Library ops.
aten_addmm_out = torch.addmm
aten_mm_out = torch.mm
aten_add_out = torch.add

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "relu",
    ("const float*", "float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] > 0 ? in_ptr0[i] : 0;
}
""",
)
(relu,) = kernels.load()

# Constants, set by the code that loads this file.
w1 = None
b1 = None
w2 = None
CONSTANTS = (
    TensorSpec("w1", torch.float32, (6, 12), (12, 1)),
    TensorSpec("b1", torch.float32, (12,), (1,)),
    TensorSpec("w2", torch.float32, (12, 6), (6, 1)),
)

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None, 6), (6, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 256:
        check_symbol("s0", s0, 1, 256, "size 0 of 'x'")
    up = empty_strided_cpu((s0, 12), (12, 1), torch.float32)
    aten_addmm_out(b1, x, w1, out=up)
    act = empty_strided_cpu((s0, 12), (12, 1), torch.float32)
    relu(up, act, 12 * s0)
    del up
    down = empty_strided_cpu((s0, 6), (6, 1), torch.float32)
    aten_mm_out(act, w2, out=down)
    del act
    y = empty_strided_cpu((s0, 6), (6, 1), torch.float32)
    aten_add_out(x, down, out=y)
    del down
    return (y,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 8
    return [random_tensor(torch.float32, (s0, 6), (6, 1))]


if __name__ == "__main__":
    make_constants(globals(), CONSTANTS)
    run_main(call, make_inputs)
