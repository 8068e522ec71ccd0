"""Wrapper program triton, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s0] on cuda:0

Results:
    y  float32[s0] on cuda:0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    TritonKernels,
    check_symbol,
    current_stream,
    empty_strided_cuda,
    on_device,
    random_tensor,
    refuse_misaligned,
    run_main,
)

cuda_0 = torch.device("cuda:0")

# Triton kernels.
triton_kernels = TritonKernels(cuda_0)
triton_kernels.add(
    "triton_poi_fused_relu_0",
    {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32"},
    r"""import triton
import triton.language as tl

@triton.jit
def triton_(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = index < xnumel
    value = tl.load(in_ptr0 + index, mask)
    tl.store(out_ptr0 + index, tl.maximum(value, 0.0), mask)""",
    entry="triton_",
    constants={"XBLOCK": 256},
    num_warps=4,
    num_stages=1,
    options={"enable_fp_fusion": False, "arch": "sm_90", "maxnreg": 64},
)
(triton_poi_fused_relu_0,) = triton_kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None,), (1,), device=cuda_0))


@on_device(cuda_0)
def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s0 = x.size(0)
    if x.data_ptr() % 16:
        refuse_misaligned(x, "x", 16)
    if s0 < 1:
        check_symbol("s0", s0, 1, None, "size 0 of 'x'")
    y = empty_strided_cuda((s0,), (1,), torch.float32)
    stream = current_stream(0)
    triton_poi_fused_relu_0((-(-s0 // 256), 1, 1), stream, x, y, s0)
    return (y,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 1024
    return [random_tensor(torch.float32, (s0,), (1,), device=cuda_0)]


if __name__ == "__main__":
    run_main(call, make_inputs)
