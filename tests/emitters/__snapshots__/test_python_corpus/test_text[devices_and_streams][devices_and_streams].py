"""Wrapper program devices_and_streams, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[8, 8] on cuda:0

Results:
    host   float32[8, 8]
    other  float32[8, 8] on cuda:1
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    OwnStream,
    TensorSpec,
    random_tensor,
    run_main,
)

cuda_0 = torch.device("cuda:0")
cuda_1 = torch.device("cuda:1")
cpu = torch.device("cpu")

# Library ops.
aten_mm = torch.mm
aten_copy_ = torch.ops.aten.copy_.default

# Streams and memory pools besides the caller's.
own_stream_1 = OwnStream(cuda_0)
own_stream_2 = OwnStream(cuda_1)

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (8, 8), (8, 1), device=cuda_0)
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    (x,) = args
    args.clear()
    stream_1 = own_stream_1.get()
    stream_2 = own_stream_2.get()
    event_1 = torch.Event(cuda_0)
    event_2 = torch.Event(cuda_0)
    event_3 = torch.Event(cuda_1)
    event_4 = torch.Event(cuda_1)
    callers_stream = torch.cuda.current_stream(cuda_0)
    callers_stream_1 = torch.cuda.current_stream(cuda_1)
    event_1.record(callers_stream)
    event_1.wait(stream_1)
    with stream_1:
        a = aten_mm(x, x)
    event_2.record(stream_1)
    b = aten_mm(x, x)
    other = torch.empty_strided((8, 8), (8, 1), dtype=torch.float32, device=cuda_1)
    event_4.record(callers_stream_1)
    event_4.wait(stream_2)
    event_2.wait(stream_2)
    with stream_2:
        aten_copy_(other, a)
        a.record_stream(stream_2)
        del a
    event_3.record(stream_2)
    event_3.wait(callers_stream_1)
    event_2.wait(callers_stream)
    host = torch.empty_strided(
        (8, 8), (8, 1), dtype=torch.float32, device=cpu, pin_memory=True
    )
    aten_copy_(host, b, True)
    del b
    return (host, other)


def make_inputs():
    """Make inputs with random contents."""
    return [random_tensor(torch.float32, (8, 8), (8, 1), device=cuda_0)]


if __name__ == "__main__":
    run_main(call, make_inputs)
