"""Wrapper program planned, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[4, 64]

Results:
    buf1  float32[4, 64]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    Outputs,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    refuse_misaligned,
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
kernels.add(
    "add_one",
    ("float*", "int64_t"),
    r"""#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* in_out_ptr0, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] += 1;
}
""",
)
relu, add_one = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (4, 64), (64, 1)))
outputs = Outputs(TensorSpec("buf1", torch.float32, (4, 64), (64, 1)))


def call(args, out=None):
    """Run the program on a list of inputs, which is emptied.

    Results for which ``out`` has a tensor, in a list, are written to that.
    """
    check_inputs(*args)
    (x,) = args
    args.clear()
    if x.data_ptr() % 16:
        refuse_misaligned(x, "x", 16)
    outs = outputs.fresh
    if out is not None:
        outs = outputs.given(out, x)
    buf0 = outs[0]
    if buf0 is None:
        buf0 = empty_strided_cpu((4, 64), (64, 1), torch.float32)
    relu(x, buf0, 256)
    del x
    buf1 = buf0
    del buf0
    add_one(buf1, 256)
    return outputs.put(outs, buf1)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (4, 64), (64, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
