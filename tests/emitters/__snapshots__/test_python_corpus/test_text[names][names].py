"""Wrapper program class, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    args  float32[free]
    int   float32[free]
    none  int

Results:
    None       float32[free]
    __class__  float32[free]
    lambda
    Max
    inputs
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_layout,
    check_number,
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
    "def_1",
    ("const float*", "float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* self, float* out, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = self[i] + 1;
}
""",
)
(def_1,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("args", torch.float32, (None,), (1,)),
    TensorSpec("int", torch.float32, (None,), (1,)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    args_1, int_1, none = args
    args.clear()
    check_inputs(args_1, int_1)
    check_number("none", none, int)
    free = args_1.size(0)
    lambda_1 = free + none
    Max = max(2, lambda_1)
    inputs = Max + lambda_1
    if free < 1:
        check_symbol("free", free, 1, None, "size 0 of 'args'")
    check_layout(int_1, "int", torch.float32, cpu, (free,), (1,))
    torch_1 = empty_strided_cpu((free,), (1,), torch.float32)
    def_1(args_1, torch_1, free)
    del args_1
    return_1 = empty_strided_cpu((free,), (1,), torch.float32)
    def_1(torch_1, return_1, free)
    del torch_1
    None_1 = reinterpret_tensor(return_1, (free,), (1,), 0)
    __class__ = empty_strided_cpu((free,), (1,), torch.float32)
    def_1(int_1, __class__, free)
    return (None_1, __class__, lambda_1, Max, inputs)


def make_inputs():
    """Make inputs with random contents."""
    free = 4
    none = 2
    return [
        random_tensor(torch.float32, (free,), (1,)),
        random_tensor(torch.float32, (free,), (1,)),
        none,
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
