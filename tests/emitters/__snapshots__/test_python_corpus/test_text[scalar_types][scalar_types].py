"""Wrapper program scalar_types, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x   float32[s0]
    z0  float

Results:
    y  float64[1]
    z  float64[1]
    w  float32[s0]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_number,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Compiled kernels.
kernels = CppKernels(extra_flags=("-O2", "-fno-math-errno"))
kernels.add(
    "mix",
    ("double*", "int64_t", "int32_t", "uint64_t", "double", "float", "bool"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(double* out_ptr0, const int64_t a, const int32_t b, const uint64_t c, const double d, const float e, const bool f)
{
    out_ptr0[0] = static_cast<double>(a) + b + static_cast<double>(c) + d + e + (f ? 0.25 : 0);
}
""",
)
kernels_1 = CppKernels()
kernels_1.add(
    "fill",
    ("float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* in_out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] = static_cast<float>(i);
}
""",
)
kernels_1.add(
    "refill",
    ("float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* in_out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] = static_cast<float>(i);
}
""",
)
(mix,) = kernels.load()
fill, refill = kernels_1.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None,), (1,)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    x, z0 = args
    args.clear()
    check_inputs(x)
    check_number("z0", z0, float)
    s0 = x.size(0)
    if not 1 <= s0 <= 100:
        check_symbol("s0", s0, 1, 100, "size 0 of 'x'")
    del x
    y = empty_strided_cpu((1,), (1,), torch.float64)
    mix(y, s0, -3, 7, 0.125, 1.5, True)
    z = empty_strided_cpu((1,), (1,), torch.float64)
    mix(z, 2 * s0 - 1, s0, s0 + 1, z0, 0.5 * z0, s0 > 2)
    w = empty_strided_cpu((s0,), (1,), torch.float32)
    fill(w, s0)
    refill(w, s0)
    return (y, z, w)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    z0 = 1.0
    return [random_tensor(torch.float32, (s0,), (1,)), z0]


if __name__ == "__main__":
    run_main(call, make_inputs)
