"""Wrapper program branches, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x         bfloat16[1, 2048] on cuda:0
    position  int64[1] on cuda:0
    keys      bfloat16[8, 512, 64] on cuda:0
    values    bfloat16[8, 512, 64] on cuda:0

Constants:
    wq  bfloat16[2048, 2048] on cuda:0  attention.q
    wk  bfloat16[2048, 512] on cuda:0  attention.k
    wv  bfloat16[2048, 512] on cuda:0  attention.v
    wo  bfloat16[2048, 2048] on cuda:0  attention.o
    wg  bfloat16[2048, 8192] on cuda:0  mlp.gate
    wu  bfloat16[2048, 8192] on cuda:0  mlp.up
    wd  bfloat16[8192, 2048] on cuda:0  mlp.down

Results:
    y  bfloat16[1, 2048] on cuda:0
"""

import torch

from wrapper_ir.runtime import (
    BranchStream,
    InputChecks,
    TensorSpec,
    TritonKernels,
    branch_event,
    current_stream,
    empty_strided_cuda,
    make_constants,
    on_device,
    past_autograd,
    random_tensor,
    run_main,
)

cuda_0 = torch.device("cuda:0")

# Library ops.
aten_mm_out = torch.mm

# Triton kernels.
triton_kernels = TritonKernels(cuda_0)
triton_kernels.add(
    "norm",
    {"x": "*bf16", "y": "*bf16"},
    r"""import triton
import triton.language as tl

@triton.jit
def norm(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i).to(tl.float32)
    tl.store(y + i, (a * tl.rsqrt(tl.sum(a * a, 0) / B + 1e-5)).to(tl.bfloat16))""",
    constants={"B": 2048},
    num_warps=8,
    num_stages=1,
)
triton_kernels.add(
    "put",
    {"x": "*bf16", "position": "*i64", "cache": "*bf16"},
    r"""import triton
import triton.language as tl

@triton.jit
def put(x, position, cache, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = (i // 64) * 512 * 64 + tl.load(position) * 64 + i % 64
    tl.store(cache + at, tl.load(x + i))""",
    constants={"B": 128},
    num_warps=4,
    num_stages=1,
)
triton_kernels.add(
    "attend",
    {"q": "*bf16", "keys": "*bf16", "values": "*bf16", "out": "*bf16"},
    r"""import triton
import triton.language as tl

@triton.jit
def attend(q, keys, values, out, S: tl.constexpr):
    head = tl.program_id(0)
    d = tl.arange(0, 64)
    s = tl.arange(0, S)
    at = (head // 4) * S * 64 + s[:, None] * 64 + d[None, :]
    a = tl.load(q + head * 64 + d).to(tl.float32)
    score = tl.sum(tl.load(keys + at).to(tl.float32) * a[None, :], 1) * 0.125
    p = tl.exp(score - tl.max(score, 0))
    p = p / tl.sum(p, 0)
    o = tl.sum(tl.load(values + at).to(tl.float32) * p[:, None], 0)
    tl.store(out + head * 64 + d, o.to(tl.bfloat16))""",
    constants={"S": 512},
    num_warps=4,
    num_stages=1,
)
triton_kernels.add(
    "add",
    {"x": "*bf16", "y": "*bf16"},
    r"""import triton
import triton.language as tl

@triton.jit
def add(x, y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) + tl.load(y + i))""",
    constants={"B": 256},
    num_warps=4,
    num_stages=1,
)
triton_kernels.add(
    "gated",
    {"gate": "*bf16", "up": "*bf16"},
    r"""import triton
import triton.language as tl

@triton.jit
def gated(gate, up, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(gate + i).to(tl.float32)
    tl.store(gate + i, (a * tl.sigmoid(a) * tl.load(up + i).to(tl.float32)).to(tl.bfloat16))""",
    constants={"B": 512},
    num_warps=4,
    num_stages=1,
)
norm, put, attend, add, gated = triton_kernels.load()

# Streams and memory pools besides the caller's.
own_stream_1 = BranchStream(cuda_0)
own_stream_2 = BranchStream(cuda_0)

# Constants, set by the code that loads this file.
wq = None
wk = None
wv = None
wo = None
wg = None
wu = None
wd = None
CONSTANTS = (
    TensorSpec("wq", torch.bfloat16, (2048, 2048), (2048, 1), device=cuda_0),
    TensorSpec("wk", torch.bfloat16, (2048, 512), (512, 1), device=cuda_0),
    TensorSpec("wv", torch.bfloat16, (2048, 512), (512, 1), device=cuda_0),
    TensorSpec("wo", torch.bfloat16, (2048, 2048), (2048, 1), device=cuda_0),
    TensorSpec("wg", torch.bfloat16, (2048, 8192), (8192, 1), device=cuda_0),
    TensorSpec("wu", torch.bfloat16, (2048, 8192), (8192, 1), device=cuda_0),
    TensorSpec("wd", torch.bfloat16, (8192, 2048), (2048, 1), device=cuda_0),
)

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.bfloat16, (1, 2048), (2048, 1), device=cuda_0),
    TensorSpec("position", torch.int64, (1,), (1,), device=cuda_0),
    TensorSpec("keys", torch.bfloat16, (8, 512, 64), (32768, 64, 1), device=cuda_0),
    TensorSpec("values", torch.bfloat16, (8, 512, 64), (32768, 64, 1), device=cuda_0),
)


@on_device(cuda_0)
@past_autograd
def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, position, keys, values = args
    args.clear()
    stream_1 = own_stream_1.get()
    stream_2 = own_stream_2.get()
    event_1 = branch_event(cuda_0)
    event_2 = branch_event(cuda_0)
    event_3 = branch_event(cuda_0)
    event_4 = branch_event(cuda_0)
    event_5 = branch_event(cuda_0)
    callers_stream = torch.cuda.current_stream(cuda_0)
    h = empty_strided_cuda((1, 2048), (2048, 1), torch.bfloat16)
    stream = current_stream(0)
    norm((1,), stream, x, h)
    k = empty_strided_cuda((1, 512), (512, 1), torch.bfloat16)
    v = empty_strided_cuda((1, 512), (512, 1), torch.bfloat16)
    event_1.record(callers_stream)
    q = empty_strided_cuda((1, 2048), (2048, 1), torch.bfloat16)
    aten_mm_out(h, wq, out=q)
    event_1.wait(stream_1)
    with stream_1:
        aten_mm_out(h, wk, out=k)
        handle_1 = current_stream(0)
        put((4,), handle_1, k, position, keys)
    event_3.record(stream_1)
    event_1.wait(stream_2)
    with stream_2:
        aten_mm_out(h, wv, out=v)
        handle_2 = current_stream(0)
        put((4,), handle_2, v, position, values)
    event_2.record(stream_2)
    a = empty_strided_cuda((1, 2048), (2048, 1), torch.bfloat16)
    event_2.wait(callers_stream)
    del v
    event_3.wait(callers_stream)
    del h
    del k
    attend((32,), stream, q, keys, values, a)
    o = q
    del q
    aten_mm_out(a, wo, out=o)
    add((8,), stream, x, o)
    h2 = a
    del a
    norm((1,), stream, o, h2)
    del x
    up = empty_strided_cuda((1, 8192), (8192, 1), torch.bfloat16)
    event_4.record(callers_stream)
    gate = empty_strided_cuda((1, 8192), (8192, 1), torch.bfloat16)
    aten_mm_out(h2, wg, out=gate)
    event_4.wait(stream_1)
    with stream_1:
        aten_mm_out(h2, wu, out=up)
    event_5.record(stream_1)
    event_5.wait(callers_stream)
    gated((16,), stream, gate, up)
    del up
    y = h2
    del h2
    aten_mm_out(gate, wd, out=y)
    del gate
    add((8,), stream, o, y)
    del o
    return (y,)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.bfloat16, (1, 2048), (2048, 1), device=cuda_0),
        random_tensor(torch.int64, (1,), (1,), device=cuda_0),
        random_tensor(torch.bfloat16, (8, 512, 64), (32768, 64, 1), device=cuda_0),
        random_tensor(torch.bfloat16, (8, 512, 64), (32768, 64, 1), device=cuda_0),
    ]


if __name__ == "__main__":
    make_constants(globals(), CONSTANTS)
    run_main(call, make_inputs)
