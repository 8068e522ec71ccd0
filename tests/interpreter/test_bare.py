"""Tensors with elements and no memory: what torch gives as a gradient that is zero everywhere."""

from __future__ import annotations

import torch

import wrapper_ir as wir

_ZEROS = (
    "aten::_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,"
    " Device? device=None, bool? pin_memory=None) -> Tensor"
)
_ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"


def test_zeros_without_memory_are_returned_as_they_are_and_end_like_any_other() -> None:
    b = wir.Builder("zeros")
    x = b.input("x", "f32", [2, 3])
    kept, read = (b.extern(_ZEROS, [2, 3], dtype="f32", result=x) for _ in range(2))
    b.returns(kept, b.extern(_ADD, read, x, result=x))
    given = torch.randn(2, 3)
    zeros, same = wir.interpret(wir.plan_memory(b.build()), given)
    assert zeros._is_zerotensor()
    assert torch.equal(same, given)
