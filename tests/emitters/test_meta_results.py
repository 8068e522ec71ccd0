"""Results without data: an op makes them, and every emitter hands them on."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir

PROGRAM = """\
wir 2
program @shapes inference logical

symbol s0 : int [0, 64]
input %x : f32[s0] @cpu

extern aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, \
Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor

  s0 = size %x, 0
  %y = aten::empty_strided([s0, 3], [1, s0], dtype=f16, device=@meta) @meta : f16[s0, 3]{1, s0} \
@meta
  assert_layout %y, "op"
return %y
"""


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_result_without_data(emitter: str) -> None:
    (result,) = wir.compile(wir.parse(PROGRAM), emitter)(torch.ones(5))
    assert result.device.type == "meta"
    assert (result.dtype, result.shape, result.stride()) == (torch.half, (5, 3), (1, 5))
