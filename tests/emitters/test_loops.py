"""Loops that write what they carry: every target passes memory on from round to round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

LOOPS = """
wir 2
program @loops inference planned

symbol n0 : int
symbol i0 : int
symbol j0 : int
symbol n1 : int
symbol i1 : int
symbol j1 : int
symbol n2 : int
symbol i2 : int
symbol j2 : int
symbol n3 : int
symbol i3 : int
symbol j3 : int
symbol u0 : int [1, inf] unbacked
input %x : f32[4] @cpu
input %y : f32[4] @cpu
input %z : f32[4] @cpu
input %v : f32[4] @cpu
input %w : f32[2] @cpu
input %zero : i64[] @cpu

extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
extern aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
extern aten::lt.Scalar(Tensor self, Scalar other) -> Tensor

  (n0, %swapped, %other) = while (0, inout %x, inout %y) : (symbol, f32[4] @cpu may_alias(%x, %y), f32[4] @cpu may_alias(%x, %y))
    condition (i0, %a0 : f32[4] @cpu, %b0 : f32[4] @cpu) {
      yield i0 < 3
    }
    body (j0, %c0 : f32[4] @cpu, %d0 : f32[4] @cpu) {
      aten::add_.Scalar(inout %c0, 1)
      yield j0 + 1, %d0, %c0
    }
  aten::add_.Scalar(inout %swapped, 100)
  %low = reinterpret %z : f32[2] @cpu
  %high = reinterpret %z : f32[2]+2 @cpu
  (n1, %first, %second) = while (0, inout %low, inout %high) : (symbol, f32[2] @cpu may_alias(%low, %high), f32[2] @cpu may_alias(%low, %high))
    condition (i1, %a1 : f32[2] @cpu, %b1 : f32[2] @cpu) {
      yield i1 < 3
    }
    body (j1, %c1 : f32[2] @cpu, %d1 : f32[2] @cpu) {
      aten::add_.Scalar(inout %c1, 1)
      yield j1 + 1, %d1, %c1
    }
  (n2, %same) = while (5, %v) : (symbol, f32[4] @cpu alias(%v))
    condition (i2, %a2 : f32[4] @cpu) {
      yield i2 < 3
    }
    body (j2, %c2 : f32[4] @cpu) {
      yield j2 + 1, %c2
    }
  aten::add_.Scalar(inout %v, 100)
  (n3, %own) = while (5, inout %v) : (symbol, f32[4] @cpu)
    condition (i3, %a3 : f32[4] @cpu) {
      yield i3 < 3
    }
    body (j3, %c3 : f32[4] @cpu) {
      aten::add_.Scalar(inout %c3, 1)
      %e3 = aten::add.Scalar(%c3, 1) : f32[4] @cpu
      yield j3 + 1, %e3
    }
  aten::add_.Scalar(inout %own, 1000)
  (%counts, %rounds) = while stacked (%zero, inout %w) : (i64[u0] @cpu, f32[u0, 2] @cpu)
    condition (%i4 : i64[] @cpu, %a4 : f32[2] @cpu) {
      %p4 = aten::lt.Scalar(%i4, 3) : bool[] @cpu
      yield %p4
    }
    body (%j4 : i64[] @cpu, %c4 : f32[2] @cpu) {
      aten::add_.Scalar(inout %c4, 1)
      %k4 = aten::add.Scalar(%j4, 1) : i64[] @cpu
      yield %k4, %c4
    }
  u0 = size %rounds, 0
  free %counts
return %swapped, %other, %first, %second, %same, %own, %rounds
"""  # noqa: E501 - a line with its results is one line


def given() -> list[torch.Tensor]:
    small = [torch.arange(4.0) * 10**k for k in range(4)]
    return [*small, torch.tensor([5.0, 7.0]), torch.tensor(0)]


def run(target: str, program: Program) -> tuple[list[Any], list[Any]]:
    """What a program returns in a target, and what it leaves in its inputs."""
    inputs = given()
    if target == "interpreter":
        results = wir.interpret(program, *inputs)
    else:
        results = wir.compile(program, target)(*inputs)
    return [each.tolist() for each in results], [each.tolist() for each in inputs]


@pytest.mark.parametrize("target", ["interpreter", "python", "cpp", "fx"])
def test_writes_reach_the_memory_that_a_loop_was_given(target: str) -> None:
    results, inputs = run(target, wir.parse(LOOPS))
    # In three rounds that swap, the first is written twice and ends in the second place.
    assert inputs == [
        [2.0, 3.0, 4.0, 5.0],
        [101.0, 111.0, 121.0, 131.0],
        [2.0, 102.0, 201.0, 301.0],
        [100.0, 1100.0, 2100.0, 3100.0],
        [8.0, 10.0],
        0,
    ]
    assert results == [
        [101.0, 111.0, 121.0, 131.0],
        [2.0, 3.0, 4.0, 5.0],
        [201.0, 301.0],
        [2.0, 102.0],
        [100.0, 1100.0, 2100.0, 3100.0],
        [1100.0, 2100.0, 3100.0, 4100.0],
        [[6.0, 8.0], [7.0, 9.0], [8.0, 10.0]],
    ]


def test_loops_that_write_nothing_they_carry_stay_ops_of_torch() -> None:
    text = LOOPS.replace("aten::add_.Scalar(inout %c", "aten::add.Scalar(%c").replace("inout ", "")
    text = "\n".join(line for line in text.splitlines() if "  aten::add_.Scalar(" not in line)
    graph = wir.emit(wir.parse(text), "fx").graph_module.graph
    names = [str(node.target) for node in graph.nodes]
    assert names.count("while_loop") == 4
    assert names.count("while_loop_stack_output") == 1
