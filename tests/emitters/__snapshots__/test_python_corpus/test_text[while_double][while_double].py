"""Wrapper program while_double, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float64[]

Results:
    root  float64[]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    run_main,
    run_while,
)

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "is_far",
    ("const double*", "const double*", "bool*"),
    r"""extern "C" void kernel(const double* in_ptr0, const double* in_ptr1, bool* out_ptr0)
{
    const double square = 1 + in_ptr1[0] * in_ptr1[0];
    const double error = in_ptr0[0] * in_ptr0[0] / square - 1;
    out_ptr0[0] = error < -1e-12 || (error > 1e-12 && error < 1e300);
}
""",
)
kernels.add(
    "step",
    ("const double*", "const double*", "double*"),
    r"""extern "C" void kernel(const double* in_ptr0, const double* in_ptr1, double* out_ptr0)
{
    out_ptr0[0] = (in_ptr0[0] + (1 + in_ptr1[0] * in_ptr1[0]) / in_ptr0[0]) / 2;
}
""",
)
is_far, step = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float64, (), ()))


def while_2_condition(r0, x0):
    far = empty_strided_cpu((), (), torch.bool)
    is_far(r0, x0, far)
    return (far,)


def while_2_body(r1, x1):
    next = empty_strided_cpu((), (), torch.float64)
    step(r1, x1, next)
    return (next,)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    (root,) = run_while(while_2_condition, while_2_body, (x,), (x,))
    return (root,)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float64, (), ())]


if __name__ == "__main__":
    run_main(call, make_inputs)
