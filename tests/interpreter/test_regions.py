"""What crosses the border of a region, where a storage is the caller's in one round and not so."""

from __future__ import annotations

from typing import Any

import torch

import wrapper_ir as wir
from tests.release import TORCH

_ADD = "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"


def test_a_loop_that_never_runs_copies_what_it_was_given_in_every_round_of_another() -> None:
    b = wir.Builder("nested")
    x = b.input("x", "f32", [2])

    def idle(i: object, carried: wir.build.Buffer) -> tuple[object, object]:
        return i, b.extern(_ADD, carried, 1, result=carried)

    def body(i: object, carried: wir.build.Buffer) -> tuple[object, object]:
        b.while_loop([0, carried], [], lambda i, _: i < 0, idle)
        return i + 1, b.extern(_ADD, carried, 1, result=carried)

    _, found = b.while_loop([0, x], [], lambda i, _: i < 3, body)
    b.returns(found)
    program = b.build()
    for strategy in ("none", "pool"):
        (result,) = wir.interpret(wir.plan_memory(program, strategy), torch.tensor([1.0, 2.0]))
        assert result.tolist() == [4.0, 5.0]


def test_views_of_a_parameter_begin_where_the_parameter_does() -> None:
    b = wir.Builder("views")
    x = b.input("x", "f32", [4])
    rest = b.narrow(x, 0, 1, 3)

    def last(p: wir.build.Buffer) -> object:
        return b.extern(_ADD, b.narrow(p, 0, 2, 1), 1, result=("f32", [1]))

    b.returns(b.cond(True, [rest], last, last))
    program = b.build()
    (result,) = wir.interpret(program, torch.arange(4.0))
    assert result.tolist() == [4.0]
    assert wir.compile(program)(torch.arange(4.0))[0].tolist() == [4.0]


def test_a_region_sees_the_symbols_around_it() -> None:
    b = wir.Builder("sizes")
    n = b.symbol("n")
    x = b.input("x", "f32", [n, 2])

    def more(p: wir.build.Buffer) -> object:
        return b.extern(_ADD, p, n, result=("f32", [n, 2]))

    b.returns(b.cond(True, [x], more, more))
    (result,) = wir.interpret(b.build(), torch.zeros(3, 2))
    assert result.tolist() == [[3.0, 3.0]] * 3


DONATED = """
wir 2
program @donated inference planned

symbol u0 : int
symbol u1 : int
symbol u2 : int
input %x : f32[2] @cpu

extern aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor

  %a = aten::add.Scalar(%x, 1) : f32[2] @cpu
  %b = aten::add.Scalar(%x, 2) : f32[2] @cpu
  %c = switch 0 with (inout %a) : f32[2] @cpu
    case0 (%a0 : f32[2] @cpu donated) {
      %d = aten::add.Scalar(%a0, 10) : f32[2] @cpu
      free %a0
      yield %d
    }
  free %a
  (u0, %e) = while (0, inout %b) : (symbol, f32[2] @cpu)
    condition (u1, %f : f32[2] @cpu) {
      yield u1 < 3
    }
    body (u2, %g : f32[2] @cpu donated) {
      %h = aten::add.Scalar(%g, 10) : f32[2] @cpu
      free %g
      yield u2 + 1, %h
    }
  free %b
return %c, %e
"""


def test_what_is_donated_to_a_region_is_only_freed_after_it() -> None:
    program, x = wir.parse(DONATED), torch.tensor([1.0, 2.0])
    runs: list[Any] = [wir.interpret, lambda p, x: wir.compile(p)(x)]
    if TORCH >= (2, 14):  # which has an op for switches
        runs.append(lambda p, x: wir.compile(p, "fx")(x))
    for run in runs:
        assert [found.tolist() for found in run(program, x)] == [[12.0, 13.0], [33.0, 34.0]]
    late = DONATED.replace("return %c, %e", "return %c, %e, %b").replace("  free %b\n", "")
    assert [fault.code for fault in wir.diagnose(wir.parse(late))] == ["WIR1030"]


def test_a_loop_needs_what_it_captures_in_each_round() -> None:
    text = DONATED.replace(
        "condition (u1, %f : f32[2] @cpu)", "condition (u1, %f : f32[2] @cpu donated)"
    )
    assert [fault.code for fault in wir.diagnose(wir.parse(text))] == ["WIR1032"]
