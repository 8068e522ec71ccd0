"""Wrapper program streams, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[64, 64] on cuda:0

Results:
    y  float32[64, 64] on cuda:0
    z  float32[64, 64] on cuda:0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    OwnStream,
    TensorSpec,
    TritonKernels,
    current_stream,
    empty_strided_cuda,
    on_device,
    random_tensor,
    run_main,
    user_object,
)

cuda_0 = torch.device("cuda:0")

# Library ops.
aten_mm = torch.mm
aten_mm_out = torch.mm

# Triton kernels.
triton_kernels = TritonKernels(cuda_0)
triton_kernels.add(
    "double",
    {"x": "*fp32", "out": "*fp32"},
    r"""import triton
import triton.language as tl

@triton.jit
def double(x, out):
    index = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store(out + index, 2 * tl.load(x + index))""",
    num_warps=4,
    num_stages=1,
)
(double,) = triton_kernels.load()

# Streams and memory pools besides the caller's.
own_stream_1 = OwnStream(cuda_0)

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (64, 64), (64, 1), device=cuda_0)
)


@on_device(cuda_0)
def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    stream_1 = own_stream_1.get()
    stream_2 = user_object(3)
    mempool_1 = user_object(5)
    event_1 = torch.Event(cuda_0)
    event_2 = torch.Event(cuda_0)
    event_3 = user_object(4)
    callers_stream = torch.cuda.current_stream(cuda_0)
    y = empty_strided_cuda((64, 64), (64, 1), torch.float32)
    event_1.record(callers_stream)
    event_1.wait(stream_1)
    with stream_1:
        a = empty_strided_cuda((64, 64), (64, 1), torch.float32)
        handle_1 = current_stream(0)
        double((16,), handle_1, x, a)
        b = empty_strided_cuda((64, 64), (64, 1), torch.float32)
        b.zero_()
        aten_mm_out(a, a, out=b)
        del a
        double((16,), handle_1, b, y)
        del b
    event_2.record(stream_1)
    with torch.cuda.use_mem_pool(mempool_1, cuda_0), stream_2:
        c = empty_strided_cuda((64, 64), (64, 1), torch.float32)
        handle_2 = current_stream(0)
        double((16,), handle_2, x, c)
        d = aten_mm(c, c)
        del c
    event_3.record(stream_2)
    event_2.wait(callers_stream)
    event_3.wait(callers_stream)
    z = aten_mm(y, d)
    event_3.synchronize()
    torch.cuda.synchronize(cuda_0)
    del d
    return (y, z)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (64, 64), (64, 1), device=cuda_0)]


if __name__ == "__main__":
    run_main(call, make_inputs)
