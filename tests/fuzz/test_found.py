"""Faults that made-up programs have shown, each as the smallest program that did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
import torch

import wrapper_ir as wir
from tests.fuzz.compare import FAST, difference
from tests.fuzz.maker import inputs_for
from wrapper_ir.aot.emitter import CppArtifact
from wrapper_ir.emitters.cpp.renderer import MAIN_FILE
from wrapper_ir.lines import expr

if TYPE_CHECKING:
    from wrapper_ir.build.values import Buffer


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


def test_fx_takes_a_view_of_an_input_that_has_no_elements_in_this_call() -> None:
    b = wir.Builder("empty_call")
    n = b.symbol("n", min=0, max=64, hint=3)
    x = b.input("x", "f32", (n, 5, 5), stride=(50, 10, 2))
    b.size(x, 0, name="n")
    b.returns(b.narrow(x, 1, 2, 2))
    program = b.build()
    for size in (0, 1, 3):
        inputs = [torch.zeros(150).as_strided((size, 5, 5), (50, 10, 2))]
        if size == 0:
            inputs = [torch.empty_strided((0, 5, 5), (50, 10, 2))]
        assert difference(program, inputs, [*FAST]) == ""


def test_views_without_elements_begin_where_they_would_with_some() -> None:
    b = wir.Builder("empty_parts")
    n = b.symbol("n", min=2, max=64, hint=3)
    x = b.input("x", "f32", (n, 5))
    b.size(x, 0, name="n")
    y = b.extern("aten::neg(Tensor self) -> Tensor", x, result=x)
    b.returns(
        *(b.narrow(of, 0, at, 0) for of in (x, y) for at in (1, n)),
        *(b.narrow(of, 0, 2, n - 2) for of in (x, y)),
    )
    program = b.build()
    for size in (2, 4):
        given = torch.zeros(7 + size * 5)[7:].view(size, 5)
        starts = {
            emitter: [result.storage_offset() for result in wir.compile(program, emitter)(given)]
            for emitter in ("python", "fx")
        }
        assert starts["fx"] == [12, 7 + 5 * size, 5, 5 * size, 17, 10]
        assert starts["python"] == starts["fx"]


def test_fx_halves_a_maximum_of_even_numbers() -> None:
    b = wir.Builder("halves", stage="planned")
    n = b.symbol("n", min=0, max=64, hint=3)
    x = b.input("x", "f32", (n,))
    pool = b.allocate_pool(64 * n + 64)
    first = b.allocate_from_pool(pool, 0, "bf16", (expr.dim(sympy.Max(n, 2 * n)),))
    second = b.allocate_from_pool(pool, 32 * n + 32, "bf16", (2,))
    for each in (first, second):
        b.extern("aten::zero_(Tensor(a!) self) -> Tensor(a!)", each)
        b.extern("aten::relu_(Tensor(a!) self) -> Tensor(a!)", x)
    for each in (second, first, pool):
        b.free(each)
    b.returns(x)
    assert difference(b.build(), [torch.ones(3)], [*FAST]) == ""


def test_what_reuses_storage_without_elements_may_be_returned_twice() -> None:
    b = wir.Builder("nothing_twice", stage="planned")
    taken = b.reuse(b.allocate("f32", ()), "i32", (0,))
    b.returns(taken, taken)
    assert difference(b.build(), [], [*FAST]) == ""


def test_inputs_hold_zeros_between_their_elements_too() -> None:
    b = wir.Builder("between")
    b.returns(b.input("x", "i64", (5,), stride=(2,)))
    program = b.build()
    for seed in (3, 4):  # inside a larger piece of memory, and alone
        (tensor,) = inputs_for(program, {}, seed, overlapping=False)
        between = tensor.as_strided((4,), (2,), tensor.storage_offset() + 1)
        assert between.tolist() == [0, 0, 0, 0]


def test_fx_copies_what_an_op_writes_with_its_gaps() -> None:
    # Torch negates a number without an imaginary part to -0.0j along gaps, else to +0.0j.
    b = wir.Builder("negated")
    x = b.input("x", "c128", (4, 1), stride=(2, 2))
    b.extern("aten::neg_(Tensor(a!) self) -> Tensor(a!)", x)
    b.returns()
    tensor = torch.empty_strided((4, 1), (2, 2), dtype=torch.complex128).fill_(3)
    assert difference(b.build(), [tensor], [*FAST]) == ""


def test_kept_arenas_are_planned_around_regions_that_have_arenas() -> None:
    b = wir.Builder("around")
    x = b.input("x", "f32", (4,))

    def zeros(count: int) -> Buffer:
        buffers = [b.allocate("f32", (4 * (count - n),)) for n in range(count)]
        for each in buffers:
            b.extern("aten::zero_(Tensor(a!) self) -> Tensor(a!)", each)
        return buffers[-1]

    b.extern(
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        x,
        zeros(2),
    )
    b.returns(b.cond(True, [x], lambda _: zeros(3), lambda _: zeros(3)))
    assert difference(b.build(), [torch.ones(4)], ["python, kept"]) == ""


def test_cpp_fills_the_type_without_a_zero_by_an_integer() -> None:
    b = wir.Builder("no_zero")
    for dtype in ("f32", "f8e8m0fnu"):
        x = b.allocate(dtype, (2,))
        b.extern("aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", x, 0)
    b.returns()
    artifact = wir.emit(wir.plan_memory(b.build()), "cpp")
    assert isinstance(artifact, CppArtifact)
    # The C shim's function takes a double.
    calls = [line for line in artifact.sources[MAIN_FILE].splitlines() if "fill_" in line]
    assert sum("(aoti_torch_cpu_fill__Scalar(" in line for line in calls) == 1
    assert sum("aten_fill_Scalar({" in line for line in calls) == 1
