"""Wrapper program pools_types, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    x  float64[3]
    n  int32[5]

Results:
    y  int64[1]
    z  int64[1]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    empty_strided_cpu,
    random_tensor,
    reinterpret_as,
    reinterpret_tensor,
    run_main,
)

# Library ops.
aten_neg_out = torch.ops.aten.neg.out
aten_gt_Scalar_out = torch.ops.aten.gt.Scalar_out
aten_sum_IntList_out = torch.ops.aten.sum.IntList_out

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("x", torch.float64, (3,), (1,)), TensorSpec("n", torch.int32, (5,), (1,))
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    x, n = args
    args.clear()
    pool = empty_strided_cpu((192,), (1,), torch.uint8)
    pool_float64 = reinterpret_as(pool, torch.float64, (0,), (1,), 0)
    a = reinterpret_tensor(pool_float64, (3,), (1,), 0)
    aten_neg_out(x, out=a)
    pool_int32 = reinterpret_as(pool, torch.int32, (0,), (1,), 0)
    b = reinterpret_tensor(pool_int32, (5,), (1,), 16)
    del x
    aten_neg_out(n, out=b)
    pool_bool = reinterpret_as(pool, torch.bool, (0,), (1,), 0)
    c = reinterpret_tensor(pool_bool, (3,), (1,), 128)
    del n
    aten_gt_Scalar_out(a, 0, out=c)
    del a
    pool_int64 = reinterpret_as(pool, torch.int64, (0,), (1,), 0)
    wide = reinterpret_tensor(pool_int64, (1,), (1,), 0)
    aten_sum_IntList_out(b, (0,), True, out=wide)
    del b
    more = reinterpret_tensor(pool_int64, (1,), (1,), 8)
    aten_sum_IntList_out(c, (0,), True, out=more)
    del c
    y = empty_strided_cpu((1,), (1,), torch.int64)
    aten_neg_out(more, out=y)
    del more
    z = empty_strided_cpu((1,), (1,), torch.int64)
    aten_neg_out(wide, out=z)
    del wide
    del pool, pool_bool, pool_float64, pool_int32, pool_int64
    return (y, z)


def make_inputs():
    """Make inputs with random contents."""
    return [
        random_tensor(torch.float64, (3,), (1,)),
        random_tensor(torch.int32, (5,), (1,)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
