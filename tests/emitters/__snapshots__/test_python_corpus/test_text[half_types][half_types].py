"""Wrapper program half_types, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float16[6]
    y  bfloat16[6]

Results:
    half  float16[6]
    wide  float32[6]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    Scratch,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Library ops.
aten__to_copy = torch.ops.aten._to_copy.default

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "mean_of",
    ("const at::Half*", "const at::BFloat16*", "at::Half*", "at::BFloat16*", "int64_t"),
    r"""#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
extern "C" void kernel(const c10::Half* in_ptr0, const c10::BFloat16* in_ptr1, c10::Half* out_ptr0, c10::BFloat16* out_ptr1, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        const float mean = (static_cast<float>(in_ptr0[i]) + static_cast<float>(in_ptr1[i])) / 2;
        out_ptr0[i] = mean;
        out_ptr1[i] = mean;
    }
}
""",
)
(mean_of,) = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float16, (6,), (1,)),
    TensorSpec("y", torch.bfloat16, (6,), (1,)),
)

# Memory and views kept between calls.
scratch = Scratch(((6,), (1,), torch.bfloat16))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, y = args
    args.clear()
    spare = scratch.take()
    half = empty_strided_cpu((6,), (1,), torch.float16)
    brain = spare[0]
    mean_of(x, y, half, brain, 6)
    del x, y
    wide = aten__to_copy(brain, dtype=torch.float32)
    del brain
    scratch.give(spare)
    return (half, wide)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return scratch.release()


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float16, (6,), (1,)),
        random_tensor(torch.bfloat16, (6,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
