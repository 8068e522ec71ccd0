"""Zeros without memory, as gradients may be: each emitter passes them on to ops and kernels."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir

PROGRAM = """\
wir 2
program @zeros inference logical

input %x : f32[3] @cpu

extern aten::_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,\
 Device? device=None, bool? pin_memory=None) -> Tensor
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor

  %zeros = aten::_efficientzerotensor([3], dtype=f32) : f32[3] @cpu
  %same = aten::add.Tensor(%x, %zeros) : f32[3] @cpu
return %same, %zeros
"""


@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_zeros_are_used_and_returned(emitter: str) -> None:
    x = torch.tensor([1.0, -2.0, 3.5])
    same, zeros = wir.compile(wir.parse(PROGRAM), emitter)(x)
    assert torch.equal(same, x)
    assert torch.equal(zeros, torch.zeros(3))
