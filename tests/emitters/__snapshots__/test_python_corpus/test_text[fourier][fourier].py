"""Wrapper program fourier, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float64[8]

Results:
    f  complex128[5]
    y  float64[8]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    random_tensor,
    reinterpret_as,
    run_main,
)

# Library ops.
aten__fft_r2c = getattr(torch, "_fft_r2c", torch.ops.aten._fft_r2c.default)
aten__fft_c2r = getattr(torch, "_fft_c2r", torch.ops.aten._fft_c2r.default)

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "scale",
    ("double*", "double", "int64_t"),
    r"""#include <cstdint>
extern "C" void kernel(double* in_out_ptr0, const double by, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] *= by;
}
""",
)
(scale,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float64, (8,), (1,)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    f = aten__fft_r2c(x, (0,), 0, True)
    parts = reinterpret_as(f, torch.float64, (5, 2), (2, 1), 0)
    scale(parts, 0.125, 10)
    del x
    y = aten__fft_c2r(f, (0,), 0, 8)
    return (f, y)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float64, (8,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
