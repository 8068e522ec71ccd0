"""Wrapper program dynamic_shapes, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, s1]
    y  float32[s1, s0]

Results:
    buf2       float32[s0**2]
    s0
    s0*s1 + 1
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    KeptArena,
    KeptHeap,
    TensorSpec,
    check_layout,
    check_symbol,
    check_that,
    empty_strided_cpu,
    random_tensor,
    reinterpret_tensor,
    run_main,
)

cpu = torch.device("cpu")

# Library ops.
aten_mm_out = torch.mm

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
    TensorSpec("x", torch.float32, (None, None), (None, 1)),
    TensorSpec("y", torch.float32, (None, None), (None, 1)),
)

# Memory and views kept between calls.
kept_pool0 = KeptArena()
kept_heap = KeptHeap()


@kept_heap.serves
def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, y = args
    args.clear()
    s0 = x.size(0)
    s1 = x.size(1)
    check_that(s0 <= 1024, "the first size is at most 1024", s0=s0)
    pool0_size_0 = -(-(4 * s0**2) // 64)
    if not 2 <= s0 <= 1024:
        check_symbol("s0", s0, 2, 1024, "size 0 of 'x'")
    if not 1 <= s1 <= 64:
        check_symbol("s1", s1, 1, 64, "size 1 of 'x'")
    check_layout(x, "x", torch.float32, cpu, (s0, s1), (s1, 1))
    check_layout(y, "y", torch.float32, cpu, (s1, s0), (s0, 1))
    pool0 = kept_pool0.take(64 * pool0_size_0)
    pool0_float32 = pool0.of(torch.float32)
    buf0 = reinterpret_tensor(pool0_float32, (s0, s0), (s0, 1), 0)
    aten_mm_out(x, y, out=buf0)
    del x, y
    buf1 = empty_strided_cpu((s0, s0), (s0, 1), torch.float32)
    relu(buf0, buf1, s0**2)
    del buf0
    kept_pool0.give(pool0)
    buf2 = reinterpret_tensor(buf1, (s0**2,), (1,), 0)
    return (buf2, s0, s0 * s1 + 1)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return kept_pool0.release() + kept_heap.release()


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    s1 = 8
    return [
        random_tensor(torch.float32, (s0, s1), (s1, 1)),
        random_tensor(torch.float32, (s1, s0), (s0, 1)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
