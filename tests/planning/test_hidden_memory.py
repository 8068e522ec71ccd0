"""Reuse does not reach across ops whose own memory use nobody sees."""

from __future__ import annotations

import pytest

import wrapper_ir as wir
from wrapper_ir.lines import Reuse

TEXT = """\
wir 2
program @p inference logical

input %x : f32[64, 64] @cpu

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, \
Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
extern aten::mm(Tensor self, Tensor mat2) -> Tensor

  %first = allocate : f32[64, 64] @cpu
  aten::mm.out(%x, %x, out=out %first)
  %large = allocate : f32[128, 64] @cpu
  %half = reinterpret %large : f32[64, 64] @cpu
  aten::mm.out(%first, %x, out=out %half)
  {between}
  %last = allocate : f32[64, 64] @cpu
  aten::mm.out(%half, %x, out=out %last)
return %last, %between
"""


@pytest.mark.parametrize(
    ("between", "reused"),
    [
        # Its result is made before it: what it may work with besides is no tensor.
        (
            "%between = allocate : f32[64] @cpu\n  aten::addmm.out(%half, %x, %x, out=out %half)",
            True,
        ),
        ("%between = aten::mm(%half, %x) : f32[64, 64] @cpu", False),
    ],
)
def test_donors_do_not_outlive_a_call_that_allocates(between: str, reused: bool) -> None:
    program = wir.plan_memory(wir.parse(TEXT.replace("{between}", between)))
    taken = [line.out for line in program.body if isinstance(line, Reuse)]
    assert taken == (["last"] if reused else [])
