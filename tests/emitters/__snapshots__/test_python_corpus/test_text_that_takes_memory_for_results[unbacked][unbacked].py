"""Wrapper program unbacked, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0]

Results:
    where    int64[u0, 1] strides [1, u0]
    twice    float32[u1]
    u0 + u1
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    Outputs,
    TensorSpec,
    check_result,
    check_symbol,
    check_that,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Library ops.
aten_nonzero = torch.nonzero
aten_masked_select = torch.masked_select
aten_gt_Scalar = torch.ops.aten.gt.Scalar

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
outputs = Outputs(
    TensorSpec("where", torch.int64, (None, 1), (1, None)),
    TensorSpec("twice", torch.float32, (None,), (1,)),
    None,
)


def call(args, out=None):
    """Run the program on a list of inputs, which is emptied.

    Results for which ``out`` has a tensor, in a list, are written to that.
    """
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 1024:
        check_symbol("s0", s0, 1, 1024, "size 0 of 'x'")
    outs = outputs.fresh
    if out is not None:
        outs = outputs.given(out, x)
    where = aten_nonzero(x)
    u0 = where.size(0)
    check_that(u0 <= s0, "no more than there are", s0=s0, u0=u0)
    mask = aten_gt_Scalar(x, 0)
    some = aten_masked_select(x, mask)
    u1 = some.size(0)
    del mask
    check_result(some, "aten.masked_select", torch.float32, (u1,), (1,))
    del x
    outputs.check(outs, 1, (u1,), (1,))
    twice = outs[1]
    if twice is None:
        twice = empty_strided_cpu((u1,), (1,), torch.float32)
    double_it(some, twice, u1)
    del some
    return outputs.put(outs, where, twice, u0 + u1)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 8
    return [random_tensor(torch.float32, (s0,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
