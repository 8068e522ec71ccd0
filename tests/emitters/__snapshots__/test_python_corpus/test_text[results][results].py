"""Wrapper program results, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 4]

Results:
    buf0             float32[s0, 4]
    buf0             float32[s0, 4]
    view             float32[4, s0] strides [1, 4]
    x                float32[s0, 4]
    None
    s0
    4*s0
    FloorDiv(s0, 2)
    TrueDiv(s0, 2)
    s0 > 2
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    reinterpret_tensor,
    run_main,
)

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

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None, 4), (4, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if s0 < 1:
        check_symbol("s0", s0, 1, None, "size 0 of 'x'")
    buf0 = empty_strided_cpu((s0, 4), (4, 1), torch.float32)
    relu(x, buf0, 4 * s0)
    view = reinterpret_tensor(buf0, (4, s0), (1, 4), 0)
    return (buf0, buf0, view, x, None, s0, 4 * s0, s0 // 2, s0 / 2, s0 > 2)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 3
    return [random_tensor(torch.float32, (s0, 4), (4, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
