"""Tensors without data: inputs, what ops make of them, and results, in every emitter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.export.support import run
from wrapper_ir.emitters import EmitError

if TYPE_CHECKING:
    from pathlib import Path

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


TAKEN = """\
wir 2
program @taken inference logical

symbol s0 : int [0, 64]
input %x : f32[s0, 4] @meta
input %y : f32[2] @cpu

extern aten::relu(Tensor self) -> Tensor

extern aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? \
dtype=None) -> Tensor

  s0 = size %x, 0
  %view = reinterpret %x : f32[2*s0, 2] @meta
  %sum = aten::sum.dim_IntList(%view, [1]) : f32[2*s0] @meta
  %real = aten::relu(%y) : f32[2] @cpu
return %sum, %real
"""


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx", None])
def test_an_input_without_data(emitter: str | None) -> None:
    program = wir.parse(TAKEN)
    given, y = torch.empty(3, 4, device="meta"), torch.tensor([-1.0, 1.0])
    made = wir.compile(program, emitter) if emitter else None
    for x in (given, torch.empty(5, 4, device="meta")):
        first, second = made(x, y) if made else wir.interpret(program, x, y)
        assert (first.device.type, first.shape) == ("meta", (2 * x.shape[0],))
        assert torch.equal(second, torch.relu(y))
    for wrong in ((torch.ones(3, 4), y), (given, y.to("meta"))):
        with pytest.raises(wir.WrapperIRError, match="wrong device"):
            made(*wrong) if made else wir.interpret(program, *wrong)


def test_libraries_take_inputs_without_data(tmp_path: Path) -> None:
    library = wir.export(wir.parse(TAKEN), tmp_path / "taken.so")
    first, second = run(library, torch.empty(3, 4, device="meta"), torch.ones(2))
    assert (first.device.type, first.shape) == ("meta", (6,))
    assert torch.equal(second, torch.ones(2))


def test_libraries_read_no_number_from_what_has_no_data() -> None:
    program = wir.parse("""\
wir 2
program @number inference logical
symbol u0 : int [0, 64] unbacked
input %x : i64[] @meta
  u0 = item %x
return u0
""")
    with pytest.raises(EmitError, match="'x' is on meta; C\\+\\+ programs run on"):
        wir.emit(program, "cpp")
