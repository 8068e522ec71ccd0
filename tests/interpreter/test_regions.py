"""What crosses the border of a region, where a storage is the caller's in one round and not so."""

from __future__ import annotations

import torch

import wrapper_ir as wir

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
