"""Wrapper program aliases, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 6]

Results:
    flat   float32[6*s0]
    maybe  float32[s0, 6]
    dense  float32[6, s0]
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

# Library ops.
aten_t = torch.ops.aten.t.default
aten_view = torch.ops.aten.view.default
aten_reshape = torch.ops.aten.reshape.default
aten_contiguous = torch.ops.aten.contiguous.default

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
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None, 6), (6, 1)))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 512:
        check_symbol("s0", s0, 1, 512, "size 0 of 'x'")
    buf0 = empty_strided_cpu((s0, 6), (6, 1), torch.float32)
    relu(x, buf0, 6 * s0)
    del x
    turned = aten_t(buf0)
    flat = aten_view(buf0, (6 * s0,))
    maybe = aten_reshape(turned, (s0, 6))
    dense = aten_contiguous(turned)
    return (flat, maybe, dense)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.float32, (s0, 6), (6, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
