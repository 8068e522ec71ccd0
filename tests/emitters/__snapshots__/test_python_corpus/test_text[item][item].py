"""Wrapper program item, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    n  int64[1]
    v  float32[]

Results:
    y   float32[u0]
    u0
    z0
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_that,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Library ops.
aten__local_scalar_dense = torch.ops.aten._local_scalar_dense.default

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

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("n", torch.int64, (1,), (1,)), TensorSpec("v", torch.float32, (), ())
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    n, v = args
    args.clear()
    u0 = n.item()
    check_that(u0 >= 0 and u0 <= 16, "a length", u0=u0)
    del n
    z0 = aten__local_scalar_dense(v)
    del v
    y = empty_strided_cpu((u0,), (1,), torch.float32)
    iota(y, u0, 2.0 * z0)
    return (y, u0, z0)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.int64, (1,), (1,)),
        random_tensor(torch.float32, (), ()),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
