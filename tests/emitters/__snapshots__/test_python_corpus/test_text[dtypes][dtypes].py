"""Wrapper program dtypes, inference.

Written by wrapper_ir, to be read and edited.

Results:
    f64   float64[2]
    f32   float32[2]
    f16   float16[2]
    bf16  bfloat16[2]
    c64   complex64[2]
    c128  complex128[2]
    i64   int64[2]
    i32   int32[2]
    i16   int16[2]
    i8    int8[2]
    u8    uint8[2]
    bool  bool[2]
"""

import torch

from wrapper_ir.runtime import Scratch, empty_strided_cpu, run_main

# Library ops.
aten_zero_ = torch.ops.aten.zero_.default

# Memory and views kept between calls.
scratch = Scratch(
    ((2,), (1,), torch.uint16),
    ((2,), (1,), torch.uint32),
    ((2,), (1,), torch.uint64),
    ((2,), (1,), torch.complex32),
    ((2,), (1,), torch.float8_e4m3fn),
    ((2,), (1,), torch.float8_e4m3fnuz),
    ((2,), (1,), torch.float8_e5m2),
    ((2,), (1,), torch.float8_e5m2fnuz),
    ((2,), (1,), torch.float8_e8m0fnu),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    args.clear()
    spare = scratch.take()
    f64 = empty_strided_cpu((2,), (1,), torch.float64)
    aten_zero_(f64)
    f32 = empty_strided_cpu((2,), (1,), torch.float32)
    aten_zero_(f32)
    f16 = empty_strided_cpu((2,), (1,), torch.float16)
    aten_zero_(f16)
    bf16 = empty_strided_cpu((2,), (1,), torch.bfloat16)
    aten_zero_(bf16)
    c64 = empty_strided_cpu((2,), (1,), torch.complex64)
    aten_zero_(c64)
    c128 = empty_strided_cpu((2,), (1,), torch.complex128)
    aten_zero_(c128)
    i64 = empty_strided_cpu((2,), (1,), torch.int64)
    aten_zero_(i64)
    i32 = empty_strided_cpu((2,), (1,), torch.int32)
    aten_zero_(i32)
    i16 = empty_strided_cpu((2,), (1,), torch.int16)
    aten_zero_(i16)
    i8 = empty_strided_cpu((2,), (1,), torch.int8)
    aten_zero_(i8)
    u8 = empty_strided_cpu((2,), (1,), torch.uint8)
    aten_zero_(u8)
    bool_1 = empty_strided_cpu((2,), (1,), torch.bool)
    aten_zero_(bool_1)
    u16 = spare[0]
    del u16
    u32 = spare[1]
    del u32
    u64 = spare[2]
    del u64
    c32 = spare[3]
    del c32
    a = spare[4]
    del a
    b = spare[5]
    del b
    c = spare[6]
    del c
    d = spare[7]
    del d
    e = spare[8]
    del e
    scratch.give(spare)
    return (f64, f32, f16, bf16, c64, c128, i64, i32, i16, i8, u8, bool_1)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return scratch.release()


def make_inputs():
    """Make inputs with random contents."""
    return []


if __name__ == "__main__":
    run_main(call, make_inputs)
