"""Wrapper program collectives, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[8] on cuda:0

Results:
    shared  float32[8] on cuda:0
    all     float32[16] on cuda:0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    empty_for_peers,
    on_device,
    random_tensor,
    run_main,
)

cuda_0 = torch.device("cuda:0")

# Library ops.
aten_copy_ = torch.ops.aten.copy_.default
_c10d_functional_all_reduce_ = torch.ops._c10d_functional.all_reduce_.default
_c10d_functional_wait_tensor = torch.ops._c10d_functional.wait_tensor.default
_c10d_functional_all_gather_into_tensor = (
    torch.ops._c10d_functional.all_gather_into_tensor.default
)

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (8,), (1,), device=cuda_0))


@on_device(cuda_0)
def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    shared = empty_for_peers((8,), (1,), torch.float32, cuda_0)
    aten_copy_(shared, x)
    del x
    _c10d_functional_all_reduce_(shared, "sum", "default")
    _c10d_functional_wait_tensor(shared)
    all = _c10d_functional_all_gather_into_tensor(shared, 2, "default")
    _c10d_functional_wait_tensor(all)
    return (shared, all)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (8,), (1,), device=cuda_0)]


if __name__ == "__main__":
    run_main(call, make_inputs)
