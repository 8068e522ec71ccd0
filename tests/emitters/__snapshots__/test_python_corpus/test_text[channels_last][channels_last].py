"""Wrapper program channels_last, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 3, 6, 6] strides [108, 1, 18, 3]

Constants:
    w  float32[4, 3, 3, 3] strides [27, 1, 9, 3]  conv.weight
    b  float32[4]  conv.bias

Results:
    z  float32[s0, 4, 4, 4] strides [64, 1, 16, 4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_result,
    check_symbol,
    empty_strided_cpu,
    make_constants,
    random_tensor,
    run_main,
)

# Library ops.
aten_convolution = torch.convolution

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
w = None
b = None
CONSTANTS = (
    TensorSpec("w", torch.float32, (4, 3, 3, 3), (27, 1, 9, 3)),
    TensorSpec("b", torch.float32, (4,), (1,)),
)

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (None, 3, 6, 6), (108, 1, 18, 3))
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 16:
        check_symbol("s0", s0, 1, 16, "size 0 of 'x'")
    y = aten_convolution(x, w, b, (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    check_result(y, "aten.convolution", torch.float32, (s0, 4, 4, 4), (64, 1, 16, 4))
    del x
    z = empty_strided_cpu((s0, 4, 4, 4), (64, 1, 16, 4), torch.float32)
    relu(y, z, 64 * s0)
    del y
    return (z,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 2
    return [random_tensor(torch.float32, (s0, 3, 6, 6), (108, 1, 18, 3))]


if __name__ == "__main__":
    make_constants(globals(), CONSTANTS)
    run_main(call, make_inputs)
