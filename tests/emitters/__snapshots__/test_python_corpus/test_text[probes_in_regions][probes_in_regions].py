"""Wrapper program probes_in_regions, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0]

Results:
    z   float32[s0]
    u2
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
    run_while,
)

# Library ops.
aten_clone = torch.ops.aten.clone.default

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
double_it, add_one = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None,), (1,)))

# Probes: they print values during calls.
show_after = make_probe("double_it", "after", "print", ("d",), ("u1",))
show_after_1 = make_probe("add_one", "after", "stats", ("own",))


def while_4_condition(u0, c, s0):
    return (u0 < 2,)


def while_4_body(u1, b, s0):
    d = empty_strided_cpu((s0,), (1,), torch.float32)
    double_it(b, d, s0)
    show_after(d, u1)
    return (u1 + 1, d)


def cond_5_then(y0, s0):
    own = aten_clone(y0)
    add_one(own, s0)
    show_after_1(own)
    return (own,)


def cond_5_else(y1, s0):
    same = aten_clone(y1)
    return (same,)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'x'")
    u2, y = run_while(while_4_condition, while_4_body, (0, x), (s0,))
    branch = cond_5_then if (s0 > 2) else cond_5_else
    (z,) = branch(y, s0)
    del y
    return (z, u2)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 4
    return [random_tensor(torch.float32, (s0,), (1,))]


if __name__ == "__main__":
    run_main(call, make_inputs)
