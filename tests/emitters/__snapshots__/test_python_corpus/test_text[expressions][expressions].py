"""Wrapper program expressions, inference.

Written by wrapper_ir, to be read and edited.

Inputs:
    s0  int
    s1  int
    s2  int
    z0  float

Results:
    k0
    k1
    k2
    k3
    k4
    k5
    k6
    k7
    k8
    k9
    k10
    k11
    k12
    k13
    k14
    k15
    k16
    z1
    z2
    z3
    z4
    z5
    z6
    z7
    z8
    z9
    z10
    b0
    b1
    b2
    2**s2
    -s0**2
"""

import torch

from wrapper_ir.runtime import (
    ceil,
    check_number,
    cos,
    exp,
    floor,
    log,
    log2,
    run_main,
    sin,
    sqrt,
    tanh,
)


def call(args):
    """Run the program on a list of inputs, which is emptied."""
    s0, s1, s2, z0 = args
    args.clear()
    check_number("s0", s0, int, 1, 1000)
    check_number("s1", s1, int, 1, 1000)
    check_number("s2", s2, int, 2, 1000)
    check_number("z0", z0, float)
    k0 = s0 + 2 * s1 - 3
    k1 = 2 * s1 * (s0 + 1)
    k2 = (s0 + s1) ** 2
    k3 = -s0 // s1
    k4 = -s0 % s1
    k5 = -(-s0 // s1)
    k6 = max(1, s0, s1 - 2)
    k7 = min(40, s0, 2 * s1)
    k8 = abs(s0 - 10 * s1)
    k9 = s0 if s0 < s1 else s1
    k10 = s0 & 6
    k11 = s0 | 8
    k12 = s0 ^ s1
    k13 = s0 << 2
    k14 = s0 >> 1
    k15 = ceil(z0) + floor(z0) + round(z0) + int(z0)
    k16 = s0 // (s1 // s2) // 2
    z1 = float(s0) + 0.5
    z2 = s0 / s1
    z3 = float(z0) ** 2.0
    z4 = sqrt(abs(z0))
    z5 = exp(z0)
    z6 = log(s0)
    z7 = log2(s0)
    z8 = sin(z0)
    z9 = cos(z0)
    z10 = tanh(z0)
    b0 = (s1 <= s2 or s0 > 4) and s0 < s1
    b1 = s0 >= s1 and s0 != 7
    b2 = (s0 == 7) == (s1 == 3)
    return (
        k0,
        k1,
        k2,
        k3,
        k4,
        k5,
        k6,
        k7,
        k8,
        k9,
        k10,
        k11,
        k12,
        k13,
        k14,
        k15,
        k16,
        z1,
        z2,
        z3,
        z4,
        z5,
        z6,
        z7,
        z8,
        z9,
        z10,
        b0,
        b1,
        b2,
        2**s2,
        -(s0**2),
    )


def make_inputs():
    """Make inputs with random contents."""
    s0 = 7
    s1 = 3
    s2 = 2
    z0 = 1.0
    return [s0, s1, s2, z0]


if __name__ == "__main__":
    run_main(call, make_inputs)
