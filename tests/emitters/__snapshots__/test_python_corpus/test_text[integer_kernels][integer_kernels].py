"""Wrapper program integer_kernels, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    i8   int8[4]
    i16  int16[4]
    i32  int32[4]
    u8   uint8[4]
    u16  uint16[4]
    u32  uint32[4]
    u64  uint64[4]

Results:
    a  int8[4]
    b  int16[4]
    c  int32[4]
    d  uint8[4]
"""

import torch

from wrapper_ir.runtime import (
    CppKernels,
    InputChecks,
    Scratch,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    run_main,
)

# Compiled kernels.
kernels = CppKernels()
kernels.add(
    "total",
    (
        "const int8_t*",
        "const int16_t*",
        "const int32_t*",
        "const uint8_t*",
        "const uint16_t*",
        "const uint32_t*",
        "const uint64_t*",
        "int64_t*",
    ),
    r"""#include <cstdint>
extern "C" void kernel(const int8_t* in_ptr0, const int16_t* in_ptr1, const int32_t* in_ptr2, const uint8_t* in_ptr3, const uint16_t* in_ptr4, const uint32_t* in_ptr5, const uint64_t* in_ptr6, int64_t* out_ptr0)
{
    for (int i = 0; i < 4; ++i) {
        out_ptr0[i] = in_ptr0[i] + in_ptr1[i] + in_ptr2[i] + in_ptr3[i] + in_ptr4[i];
        out_ptr0[i] += in_ptr5[i] + static_cast<int64_t>(in_ptr6[i]);
    }
}
""",
)
kernels.add(
    "narrow",
    ("const int64_t*", "int8_t*", "int16_t*", "int32_t*", "uint8_t*"),
    r"""#include <cstdint>
extern "C" void kernel(const int64_t* in_ptr0, int8_t* out_ptr0, int16_t* out_ptr1, int32_t* out_ptr2, uint8_t* out_ptr3)
{
    for (int i = 0; i < 4; ++i) {
        out_ptr0[i] = static_cast<int8_t>(-in_ptr0[i]);
        out_ptr1[i] = static_cast<int16_t>(-100 * in_ptr0[i]);
        out_ptr2[i] = static_cast<int32_t>(1000 * in_ptr0[i]);
        out_ptr3[i] = static_cast<uint8_t>(200 + in_ptr0[i]);
    }
}
""",
)
total, narrow = kernels.load()

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("i8", torch.int8, (4,), (1,)),
    TensorSpec("i16", torch.int16, (4,), (1,)),
    TensorSpec("i32", torch.int32, (4,), (1,)),
    TensorSpec("u8", torch.uint8, (4,), (1,)),
    TensorSpec("u16", torch.uint16, (4,), (1,)),
    TensorSpec("u32", torch.uint32, (4,), (1,)),
    TensorSpec("u64", torch.uint64, (4,), (1,)),
)

# Memory and views kept between calls.
scratch = Scratch(((4,), (1,), torch.int64))


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    i8, i16, i32, u8, u16, u32, u64 = args
    args.clear()
    spare = scratch.take()
    sum = spare[0]
    total(i8, i16, i32, u8, u16, u32, u64, sum)
    del i8, i16, i32, u8, u16, u32, u64
    a = empty_strided_cpu((4,), (1,), torch.int8)
    b = empty_strided_cpu((4,), (1,), torch.int16)
    c = empty_strided_cpu((4,), (1,), torch.int32)
    d = empty_strided_cpu((4,), (1,), torch.uint8)
    narrow(sum, a, b, c, d)
    del sum
    scratch.give(spare)
    return (a, b, c, d)


def release():
    """Free the memory that is kept between calls, and return its bytes."""
    return scratch.release()


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.int8, (4,), (1,)),
        random_tensor(torch.int16, (4,), (1,)),
        random_tensor(torch.int32, (4,), (1,)),
        random_tensor(torch.uint8, (4,), (1,)),
        random_tensor(torch.uint16, (4,), (1,)),
        random_tensor(torch.uint32, (4,), (1,)),
        random_tensor(torch.uint64, (4,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
