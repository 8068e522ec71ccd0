"""Wrapper program no_inputs, inference.

Written by wrapper_ir, to be read and edited.

Results:
    buf0  float32[8]
"""

import torch

from wrapper_ir.runtime import CppKernels, empty_strided_cpu, run_main

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "iota",
    ("float*", "int64_t", "double"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* out_ptr0, const int64_t n, const double step)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = static_cast<float>(step * i);
}
""",
)
(iota,) = kernels.load()


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    args.clear()
    buf0 = empty_strided_cpu((8,), (1,), torch.float32)
    iota(buf0, 8, 0.25)
    return (buf0,)


def make_inputs():
    """Make inputs with random contents."""
    return []


if __name__ == "__main__":
    run_main(call, make_inputs)
