"""Wrapper program device_zoo, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    a  float4_e2m1fn_x2[4] on cuda:0
    b  float8_e8m0fnu[4] on xpu:1
    c  qint8[4] on mps
    d  bfloat16[4] on cpu:0

Results:
    a  float4_e2m1fn_x2[4] on cuda:0
    b  float8_e8m0fnu[4] on xpu:1
    c  qint8[4] on mps
    d  bfloat16[4] on cpu:0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    on_device,
    random_tensor,
    run_main,
)

cuda_0 = torch.device("cuda:0")
xpu_1 = torch.device("xpu:1")
mps = torch.device("mps")
cpu_0 = torch.device("cpu:0")

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("a", torch.float4_e2m1fn_x2, (4,), (1,), device=cuda_0),
    TensorSpec("b", torch.float8_e8m0fnu, (4,), (1,), device=xpu_1),
    TensorSpec("c", torch.qint8, (4,), (1,), device=mps),
    TensorSpec("d", torch.bfloat16, (4,), (1,), device=cpu_0),
)


@on_device(cuda_0)
def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    a, b, c, d = args
    args.clear()
    return (a, b, c, d)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float4_e2m1fn_x2, (4,), (1,), device=cuda_0),
        random_tensor(torch.float8_e8m0fnu, (4,), (1,), device=xpu_1),
        random_tensor(torch.qint8, (4,), (1,), device=mps),
        random_tensor(torch.bfloat16, (4,), (1,), device=cpu_0),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
