"""Wrapper program peers, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[s] on cuda:0

Results:
    d  float32[s] on cuda:0
    e  float32[4] on cuda:0
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    PeerMemory,
    TensorSpec,
    check_symbol,
    empty_for_peers,
    on_device,
    random_tensor,
    reinterpret_tensor,
    run_main,
)

cuda_0 = torch.device("cuda:0")

# Library ops.
aten_relu_out = torch.ops.aten.relu.out
symm_mem_one_shot_all_reduce = torch.ops.symm_mem.one_shot_all_reduce.default

# Checks of inputs and results.
check_inputs = InputChecks(TensorSpec("x", torch.float32, (None,), (1,), device=cuda_0))

# Memory and views kept between calls.
peers_a = PeerMemory(cuda_0)


@on_device(cuda_0)
def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    s = x.size(0)
    if not 4 <= s <= 64:
        check_symbol("s", s, 4, 64, "size 0 of 'x'")
    a = peers_a.empty_strided((s,), (1,), torch.float32)
    aten_relu_out(x, out=a)
    del x
    b = symm_mem_one_shot_all_reduce(a, "sum", "0")
    c = a
    del a
    aten_relu_out(b, out=c)
    del b
    d = symm_mem_one_shot_all_reduce(c, "sum", "0")
    del c
    e = empty_for_peers((4,), (1,), torch.float32, cuda_0)
    first = reinterpret_tensor(d, (4,), (1,), 0)
    aten_relu_out(first, out=e)
    return (d, e)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return peers_a.release()


def make_inputs():
    """Make inputs with random contents."""
    s = 8
    return [random_tensor(torch.float32, (s,), (1,), device=cuda_0)]


if __name__ == "__main__":
    run_main(call, make_inputs)
