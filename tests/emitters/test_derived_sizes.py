"""Inputs whose sizes, strides and offsets are expressions: the same in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir

#: A pair of rows for each of s0, a table of s0 by s1 given as one row, a table with gaps.
PROGRAM = """\
wir 2
program @derived inference logical

symbol s0 : int [1, 64]
symbol s1 : int [1, 64]
symbol s2 : int
symbol s3 : int [0, inf]
symbol s4 : int
input s0
input %pairs : f32[2*s0, 3] @cpu
input %row : f32[s0*s1]{s4} @cpu
input %gaps : f32[s0, s1]{s2, 1} @cpu

extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
extern aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)

  s1 = size %gaps, 1
  s2 = stride %gaps, 0
  s3 = storage_offset %gaps
  s4 = stride %row, 0
  %table = reinterpret %row : f32[s0, s1]{s1*s4, s4} @cpu
  %sum = aten::add.Tensor(%table, %gaps) : f32[s0, s1] @cpu
  %again = aten::view(%gaps, [s0, 1, s1]) : f32[s0, 1, s1]{s2, s2, 1} @cpu alias(%gaps)
  %part = reinterpret %pairs : f32[s0, 3]{6, 1}+3 @cpu
return %sum, %again, %part, s0*s1, s2 + s3
"""

Run = Callable[..., Any]


def ways(program: wir.Program) -> dict[str, Run]:
    found: dict[str, Run] = {name: wir.compile(program, name) for name in ("python", "fx", "cpp")}
    return {**found, "interpreter": lambda *inputs: wir.interpret(program, *inputs)}


def inputs(rows: int, columns: int, step: int) -> tuple[int, Tensor, Tensor, Tensor]:
    pairs = torch.arange(6.0 * rows).view(2 * rows, 3)
    row = torch.arange(float(rows * columns * step))[::step]
    wide = torch.arange(float((rows + 1) * (columns + 4))).view(rows + 1, columns + 4)
    return rows, pairs, row, wide[1:, 2 : 2 + columns]


def expected(rows: int, pairs: Tensor, row: Tensor, gaps: Tensor) -> list[Any]:
    numbers = [row.numel(), gaps.stride(0) + gaps.storage_offset()]
    return [row.reshape(gaps.shape) + gaps, gaps.view(rows, 1, -1), pairs[1::2], *numbers]


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, int):
        return bool(found == wanted)
    return torch.equal(found, wanted) and found.stride() == wanted.stride()


def test_all_ways_agree() -> None:
    program = wir.parse(PROGRAM)
    assert wir.parse(str(program)) == program
    for name, run in ways(program).items():
        for sizes in ((4, 5, 1), (7, 2, 3)):
            given = inputs(*sizes)
            for result, wanted in zip(run(*given), expected(*given), strict=True):
                assert same(result, wanted), (name, sizes)
        rows, pairs, row, gaps = inputs(4, 5, 1)
        for wrong in ((rows, pairs[1:], row, gaps), (rows, pairs, row[1:], gaps)):
            with pytest.raises(wir.WrapperIRError, match="wrong size"):
                run(*wrong)
