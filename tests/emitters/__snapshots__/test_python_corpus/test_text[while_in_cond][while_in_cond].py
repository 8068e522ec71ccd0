"""Wrapper program while_in_cond, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0]

Results:
    y  float32[s0]
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
    run_while,
)

# Library ops.
aten_clone = torch.ops.aten.clone.default

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "double_it",
    ("const float*", "float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = 2 * in_ptr0[i];
}
""",
)
(double_it,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None,), (1,)))


def while_3_0_condition(u1, c, s0):
    return (u1 > 0,)


def while_3_0_body(u2, b, s0):
    d = empty_strided_cpu((s0,), (1,), torch.float32)
    double_it(b, d, s0)
    return (u2 - 1, d)


def cond_3_then(x0, s0):
    u0, z = run_while(while_3_0_condition, while_3_0_body, (s0, x0), (s0,))
    return (z,)


def cond_3_else(x1, s0):
    same = aten_clone(x1)
    return (same,)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    branch = cond_3_then if (s0 > 2) else cond_3_else
    (y,) = branch(x, s0)
    return (y,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.float32, (s0,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
