"""Wrapper program masks, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0]
    m  bool[s0]

Results:
    both  bool[s0]
    y     float32[s0]
    some  bool[]
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
    run_main,
)

cpu = torch.device("cpu")

# Library ops.
aten_logical_and_out = torch.ops.aten.logical_and.out
aten_where_ScalarOther = torch.ops.aten.where.ScalarOther
aten_any = torch.any

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "positive",
    ("const float*", "bool*", "int64_t"),
    r"""#include <cstdint>
extern "C" void kernel(const float* in_ptr0, bool* out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] > 0;
}
""",
)
(positive,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (None,), (1,)),
    TensorSpec("m", torch.bool, (None,), (1,)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, m = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    check_layout(m, "m", torch.bool, cpu, (s0,), (1,))
    p = empty_strided_cpu((s0,), (1,), torch.bool)
    positive(x, p, s0)
    both = empty_strided_cpu((s0,), (1,), torch.bool)
    aten_logical_and_out(m, p, out=both)
    del p
    del m
    y = aten_where_ScalarOther(both, x, -1)
    del x
    some = aten_any(both)
    return (both, y, some)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 5
    return [
        random_tensor(torch.float32, (s0,), (1,)),
        random_tensor(torch.bool, (s0,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
