"""Tensors that conjugate or negate their memory: views of them do, too, with every emitter."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir

PROGRAM = """wir 2
program @p inference logical
input %x : c64[4, 4] @cpu
extern aten::{op}(Tensor(a) self) -> Tensor(a)
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  %lazy = aten::{op}(%x) : c64[4, 4] @cpu alias(%x)
  %rows = reinterpret %lazy : c64[2, 4]{{4, 1}}+4 @cpu
  %sum = aten::add.Tensor(%rows, %rows) : c64[2, 4] @cpu
return %sum
"""

X = torch.complex(torch.arange(16.0), torch.arange(1.0, 17.0)).reshape(4, 4)

#: One memory, read in three ways.
WAYS = (X, X.conj(), torch.ops.aten._neg_view(X))


@pytest.mark.parametrize("op", ["_conj", "_neg_view"])
@pytest.mark.parametrize("target", ["interpreter", "python", "cpp", "fx"])
def test_a_view_of_a_result_reads_memory_as_the_result_does(target: str, op: str) -> None:
    program = wir.parse(PROGRAM.format(op=op))
    call: Any = partial(wir.interpret, program)
    if target != "interpreter":
        call = wir.compile(program, target)
    for x in WAYS:
        got = call(x)
        want = getattr(torch.ops.aten, op)(x)[1:3] * 2
        assert torch.equal(got[0] if isinstance(got, tuple) else got, want)


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_the_imaginary_part_of_a_conjugated_argument(emitter: str) -> None:
    """As numbers that are stored: what conjugates twice does not conjugate."""

    def function(x: Tensor) -> Tensor:
        return x.conj().imag

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="wrapper_ir", options={"emitter": emitter})
    for x in (X.conj(), X.mH, X[1:].conj()):
        assert torch.equal(compiled(x), function(x))
