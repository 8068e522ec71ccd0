"""Wrapper program probes, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0, 4]

Results:
    a  float32[s0, 4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    check_symbol,
    empty_strided_cpu,
    make_probe,
    random_tensor,
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
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None, 4), (4, 1)))

# Probes: they print values during calls.
show_before = make_probe("relu", "before", "names", ("x", "a"), ("4*s0",))
show_after = make_probe("relu", "after", "print", ("a",))
show_after_1 = make_probe("relu", "after", "save", ("a",))
show_after_2 = make_probe("relu", "after", "stats", ("a", "x"))
show_before_1 = make_probe("add_one", "before", "compare", ("a",), ("s0", "0.5"))
show_after_3 = make_probe("add_one", "after", "check", ("a",))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    a = empty_strided_cpu((s0, 4), (4, 1), torch.float32)
    show_before(x, a, 4 * s0)
    relu(x, a, 4 * s0)
    show_after(a)
    show_after_1(a)
    show_after_2(a, x)
    show_before_1(a, s0, 0.5)
    add_one(a, 4 * s0)
    show_after_3(a)
    return (a,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.float32, (s0, 4), (4, 1))]


if __name__ == "__main__":
    run_main(call, make_inputs)
