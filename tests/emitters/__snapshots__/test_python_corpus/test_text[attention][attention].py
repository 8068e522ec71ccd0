"""Wrapper program attention, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    q  float32[s0, s1, 4]
    k  float32[s0, s1, 4]
    v  float32[s0, s1, 4]

Results:
    y  float32[s0, s1, 4]
"""

import torch

from wrapper_ir.runtime import (
    InputChecks,
    TensorSpec,
    check_layout,
    check_symbol,
    empty_strided_cpu,
    random_tensor,
    reinterpret_tensor,
    run_main,
)

cpu = torch.device("cpu")

# Library ops.
aten_baddbmm_out = torch.baddbmm
aten__softmax_out = torch.ops.aten._softmax.out
aten_bmm_out = torch.bmm

# Checks of inputs and results.
check_inputs = InputChecks(
    TensorSpec("q", torch.float32, (None, None, 4), (None, 4, 1)),
    TensorSpec("k", torch.float32, (None, None, 4), (None, 4, 1)),
    TensorSpec("v", torch.float32, (None, None, 4), (None, 4, 1)),
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    check_inputs(*args)
    q, k, v = args
    args.clear()
    s0 = q.size(0)
    s1 = q.size(1)
    if not 1 <= s0 <= 64:
        check_symbol("s0", s0, 1, 64, "size 0 of 'q'")
    if not 1 <= s1 <= 64:
        check_symbol("s1", s1, 1, 64, "size 1 of 'q'")
    check_layout(q, "q", torch.float32, cpu, (s0, s1, 4), (4 * s1, 4, 1))
    check_layout(k, "k", torch.float32, cpu, (s0, s1, 4), (4 * s1, 4, 1))
    check_layout(v, "v", torch.float32, cpu, (s0, s1, 4), (4 * s1, 4, 1))
    turned = reinterpret_tensor(k, (s0, 4, s1), (4 * s1, 1, 4), 0)
    zeros = empty_strided_cpu((s0, s1, s1), (s1**2, s1, 1), torch.float32)
    zeros.zero_()
    scores = empty_strided_cpu((s0, s1, s1), (s1**2, s1, 1), torch.float32)
    aten_baddbmm_out(zeros, q, turned, alpha=0.5, out=scores)
    weights = zeros
    del zeros
    del q, k, turned
    aten__softmax_out(scores, -1, False, out=weights)
    del scores
    y = empty_strided_cpu((s0, s1, 4), (4 * s1, 4, 1), torch.float32)
    aten_bmm_out(weights, v, out=y)
    del weights
    return (y,)


def make_inputs():
    """Make inputs with random contents."""
    s0 = 3
    s1 = 5
    return [
        random_tensor(torch.float32, (s0, s1, 4), (4 * s1, 4, 1)),
        random_tensor(torch.float32, (s0, s1, 4), (4 * s1, 4, 1)),
        random_tensor(torch.float32, (s0, s1, 4), (4 * s1, 4, 1)),
    ]


if __name__ == "__main__":
    run_main(call, make_inputs)
