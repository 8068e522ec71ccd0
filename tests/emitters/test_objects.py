"""An object of a class that every torch has, through every way to run a program."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir

PACKED = "__torch__.torch.classes.quantized.LinearPackedParamsBase"

TEXT = f"""\
wir 2
program @linear inference logical

input %x : f32[2, 4] @cpu
object &weight : quantized::LinearPackedParamsBase = "linear.weight"

extern quantized::linear_dynamic(Tensor X, {PACKED} W_prepack, bool reduce_range=False) -> Tensor Y
method quantized::LinearPackedParamsBase.bias({PACKED} _0) -> Tensor? _0

  %y = quantized::linear_dynamic(%x, &weight) : f32[2, 3] @cpu held
  %bias = quantized::LinearPackedParamsBase.bias(&weight) : f32[3] @cpu held
return %y, %bias
"""


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_a_packed_weight_is_an_object_like_any_other() -> None:
    bias, x = torch.ones(3), torch.linspace(-1, 1, 8).view(2, 4)
    weight = torch.quantize_per_tensor(torch.linspace(-1, 1, 12).view(3, 4), 0.1, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, bias)
    program = wir.parse(TEXT).replace(data={"weight": packed})
    expected = (torch.ops.quantized.linear_dynamic(x, packed), bias)
    torch.testing.assert_close(wir.interpret(program, x), expected)
    for emitter in ("python", "cpp", "fx"):
        torch.testing.assert_close(wir.compile(program, emitter)(x), expected)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_program_without_its_object_is_not_loaded(emitter: str) -> None:
    with pytest.raises(wir.WrapperIRError, match=r"WIR2006.*'weight'"):
        wir.compile(wir.parse(TEXT), emitter)
