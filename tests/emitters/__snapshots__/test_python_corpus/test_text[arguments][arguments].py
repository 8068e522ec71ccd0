"""Wrapper program arguments, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float32[2, 3, 4, 5]
    i  int64[3]

Results:
    full     float64[2, 3]
    inf      float32[1]
    minus    float32[1]
    nan      float32[1]
    zero     float32[1]
    complex  complex64[1]
    floor    float32[2, 3, 4, 5]
    last     float32[2, 3, 4, 5] strides [60, 1, 15, 3]
    clamped  float32[2, 3, 4, 5]
    taken    float32[2, 3, 4, 3]
    padded   int64[6]
"""

import torch

from wrapper_ir.runtime import InputChecks, TensorSpec, random_tensor, run_main

cpu = torch.device("cpu")

# Library ops.
aten_full = torch.ops.aten.full.default
aten_div_Tensor_mode = torch.ops.aten.div.Tensor_mode
aten_clone = torch.ops.aten.clone.default
aten_clamp = torch.ops.aten.clamp.default
aten_index_Tensor = torch.ops.aten.index.Tensor
aten_constant_pad_nd = torch.constant_pad_nd

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float32, (2, 3, 4, 5), (60, 20, 5, 1)),
    TensorSpec("i", torch.int64, (3,), (1,)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, i = args
    args.clear()
    full = aten_full(
        (2, 3),
        1.5,
        dtype=torch.float64,
        layout=torch.strided,
        device=cpu,
        pin_memory=False,
    )
    inf = aten_full((1,), float("inf"), dtype=torch.float32)
    minus = aten_full((1,), float("-inf"), dtype=torch.float32)
    nan = aten_full((1,), float("nan"), dtype=torch.float32)
    zero = aten_full((1,), -0.0, dtype=torch.float32)
    complex_1 = aten_full((1,), complex(1.5, -0.0), dtype=torch.complex64)
    floor_1 = aten_div_Tensor_mode(x, x, rounding_mode="floor")
    true = aten_div_Tensor_mode(x, x, rounding_mode=None)
    del true
    last = aten_clone(x, memory_format=torch.channels_last)
    clamped = aten_clamp(x, None, 0.5)
    taken = aten_index_Tensor(x, [None, None, None, i])
    del x
    padded = aten_constant_pad_nd(i, (1, 2), 7)
    return (
        full,
        inf,
        minus,
        nan,
        zero,
        complex_1,
        floor_1,
        last,
        clamped,
        taken,
        padded,
    )


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float32, (2, 3, 4, 5), (60, 20, 5, 1)),
        random_tensor(torch.int64, (3,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
