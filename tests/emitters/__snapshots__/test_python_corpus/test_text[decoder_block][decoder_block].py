"""Wrapper program decoder_block, inference.

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
    InputChecks,
    TensorSpec,
    TritonKernels,
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
    h = empty_strided_cuda((1, 2048), (2048, 1), torch.bfloat16)
    stream = current_stream(0)
    norm((1,), stream, x, h)
    q = empty_strided_cuda((1, 2048), (2048, 1), torch.bfloat16)
    aten_mm_out(h, wq, out=q)
    k = empty_strided_cuda((1, 512), (512, 1), torch.bfloat16)
    aten_mm_out(h, wk, out=k)
    put((4,), stream, k, position, keys)
    v = k
    del k
    aten_mm_out(h, wv, out=v)
    put((4,), stream, v, position, values)
    del v
    a = h
    del h
    attend((32,), stream, q, keys, values, a)
    o = q
    del q
    del position, keys, values
    aten_mm_out(a, wo, out=o)
    add((8,), stream, x, o)
    h2 = a
    del a
    norm((1,), stream, o, h2)
    del x
    gate = empty_strided_cuda((1, 8192), (8192, 1), torch.bfloat16)
    aten_mm_out(h2, wg, out=gate)
    up = empty_strided_cuda((1, 8192), (8192, 1), torch.bfloat16)
    aten_mm_out(h2, wu, out=up)
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
