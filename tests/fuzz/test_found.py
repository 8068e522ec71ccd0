"""Faults that made-up programs have shown, each as the smallest program that did."""

from __future__ import annotations

import sympy
import torch

import wrapper_ir as wir
from tests.fuzz.compare import FAST, difference
from wrapper_ir.lines import expr


def test_fx_chooses_between_a_number_and_a_symbol() -> None:
    b = wir.Builder("choice")
    n = b.symbol("n", min=0, max=64, hint=3)
    b.input("x", "f32", (n,))
    both = b.compute(expr.Where(sympy.Lt(n, 2), 2, n))
    other = b.compute(expr.Where(sympy.Lt(n, 2), n, 7))
    b.returns(both, other)
    program = b.build()
    for size in (1, 5):
        assert difference(program, [torch.zeros(size)], [*FAST]) == ""


def test_fx_takes_a_view_without_elements_behind_the_end_of_an_input() -> None:
    b = wir.Builder("empty_view")
    x = b.input("x", "f32", (1, 1), stride=(2, 2))
    b.returns(b.narrow(x, 1, 1, 0), b.reinterpret(x, (0,), (1,), offset=9))
    program = b.build()
    assert difference(program, [torch.zeros(1, 1).as_strided((1, 1), (2, 2))], [*FAST]) == ""
