"""Wrapper program zero_sizes, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 3]
    y  float32[0]
    z  float32[]

Results:
    a  float32[s0, 3]
    b  float32[2, 0, 4]
    c  float32[0, 8]
    d  float32[]
    e  float32[1, 1, 1]
    y  float32[0]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
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
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (None, 3), (3, 1)),
    TensorSpec("y", torch.float32, (0,), (1,)),
    TensorSpec("z", torch.float32, (), ()),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, y, z = args
    args.clear()
    s0 = x.size(0)
    a = empty_strided_cpu((s0, 3), (3, 1), torch.float32)
    relu(x, a, 3 * s0)
    del x
    b = empty_strided_cpu((2, 0, 4), (4, 4, 1), torch.float32)
    c = reinterpret_tensor(b, (0, 8), (8, 1), 0)
    d = empty_strided_cpu((), (), torch.float32)
    relu(z, d, 1)
    e = reinterpret_tensor(d, (1, 1, 1), (1, 1, 1), 0)
    return (a, b, c, d, e, y)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 0
    return [
        random_tensor(torch.float32, (s0, 3), (3, 1)),
        random_tensor(torch.float32, (0,), (1,)),
        random_tensor(torch.float32, (), ()),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
