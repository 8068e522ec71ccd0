"""Wrapper program cond_integers, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  int32[s0]

Results:
    a   int32[s0]
    b   uint8[s0]
    u0
    z0
    b0
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "shift",
    ("const int32_t*", "int32_t*", "uint8_t*", "int32_t", "int64_t"),
    r"""#include <cstdint>
extern "C" void kernel(const int32_t* in_ptr0, int32_t* out_ptr0, uint8_t* out_ptr1, const int32_t by, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        out_ptr0[i] = in_ptr0[i] * (1 << by);
        out_ptr1[i] = static_cast<uint8_t>(out_ptr0[i]);
    }
}
""",
)
(shift,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.int32, (None,), (1,)))


def cond_2_then(x0, s0):
    a0 = empty_strided_cpu((s0,), (1,), torch.int32)
    b0 = empty_strided_cpu((s0,), (1,), torch.uint8)
    shift(x0, a0, b0, 3, s0)
    return (a0, b0, s0 // 2, 0.5, True)


def cond_2_else(x1, s0):
    a1 = empty_strided_cpu((s0,), (1,), torch.int32)
    b1 = empty_strided_cpu((s0,), (1,), torch.uint8)
    shift(x1, a1, b1, 1, s0)
    return (a1, b1, 3 * s0, 1.5, s0 > 4)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    branch = cond_2_then if (s0 % 2 == 0) else cond_2_else
    a, b, u0, z0, b0_1 = branch(x, s0)
    return (a, b, u0, z0, b0_1)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 6
    return [random_tensor(torch.int32, (s0,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
