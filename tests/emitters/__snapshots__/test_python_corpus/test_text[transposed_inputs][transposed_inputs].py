"""Wrapper program transposed_inputs, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, s1] strides [1, s0]

Results:
    y  float32[s0, s1]
    z  float32[s1, s0]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_layout,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    reinterpret_tensor,
    run_main,
)

cpu = torch.device("cpu")

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "pack",
    ("const float*", "float*", "int64_t", "int64_t", "int64_t", "int64_t"),
    r"""#include <cstdint>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t rows, const int64_t columns, const int64_t row, const int64_t column)
{
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
            out_ptr0[i * columns + j] = in_ptr0[i * row + j * column];
        }
    }
}
""",
)
(pack,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None, None), (1, None)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    s1 = x.size(1)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    if not 1 <= s1 <= 64:
        check_symbol("s1", s1, 1, 64, "size 1 of 'x'")
    check_layout(x, "x", torch.float32, cpu, (s0, s1), (1, s0))
    y = empty_strided_cpu((s0, s1), (s1, 1), torch.float32)
    pack(x, y, s0, s1, 1, s0)
    t = reinterpret_tensor(x, (s1, s0), (s0, 1), 0)
    z = empty_strided_cpu((s1, s0), (s0, 1), torch.float32)
    pack(t, z, s1, s0, s0, 1)
    return (y, z)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 3
    s1 = 5
    return [random_tensor(torch.float32, (s0, s1), (1, s0))]


if __name__ == "__main__":
    run_main(call, make_inputs)
