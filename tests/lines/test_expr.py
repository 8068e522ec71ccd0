"""Expressions: a closed vocabulary, one canonical form, values that can be worked out."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
import sympy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests import strategies
from wrapper_ir.lines import dim, real_symbol, scalar, symbol
from wrapper_ir.lines import expr as ex
from wrapper_ir.lines.expr_printer import (
    ExprPrinter,
    Form,
    Level,
    Piece,
    bracketed,
    call,
    infix,
    nested_call,
    ordered_args,
    power,
    prefix,
    product_form,
    sum_form,
)

S0, S1, S2 = symbol("s0"), symbol("s1"), symbol("s2")

slowly = settings(deadline=None, suppress_health_check=list(HealthCheck))


@slowly
@given(strategies.numbers)
def test_what_is_canonical_stays_as_it_is(value: Any) -> None:
    again = scalar(value)
    assert type(again) is type(value)
    assert again == value or value != value


@pytest.mark.parametrize(
    ("given_", "canonical"),
    [
        (sympy.Integer(3), 3),
        (sympy.Float(0.5), 0.5),
        (sympy.true, True),
        (sympy.Symbol("s0", positive=True, integer=True), S0),
        (sympy.Symbol("s0"), S0),
        (sympy.Symbol("z", real=True), real_symbol("z")),
        (sympy.Mul(2, S0 + 1, evaluate=False), 2 * S0 + 2),
        (
            sympy.Max(1, sympy.Symbol("s0", integer=True, positive=True), evaluate=False),
            sympy.Max(1, S0),
        ),
        (S0 // 2, ex.FloorDiv(S0, 2)),
        (S0 // S1, ex.FloorDiv(S0, S1)),
        ((S0 + 1) // (2 * S1), ex.FloorDiv(S0 + 1, 2 * S1)),
        (sympy.ceiling(S0 / 4), ex.CeilDiv(S0, 4)),
        (S0 % 3, ex.Mod(S0, 3)),
        (ex.FloorDiv(7, 2), 3),
        (ex.FloorDiv(-7, 2), -4),
        (ex.CeilDiv(7, 2), 4),
        (ex.CeilDiv(-7, 2), -3),
        (ex.Mod(-7, 3), 2),
        (ex.Mod(7, -3), -2),
        (ex.BitAnd(6, 3), 2),
        (ex.BitOr(6, 3), 7),
        (ex.BitXor(6, 3), 5),
        (ex.FloorDiv(S0, 1), S0),
        (ex.FloorDiv(0, S0), ex.FloorDiv(0, S0)),
        (ex.FloorDiv(0, 3), 0),
        (ex.Mod(S0, 1), 0),
        (ex.Where(True, S0, S1), S0),
        (ex.Where(S0 < 1, S1, S1), S1),
    ],
    ids=str,
)
def test_the_canonical_form(given_: Any, canonical: Any) -> None:
    found = scalar(given_)
    assert found == canonical
    assert type(found) is type(scalar(canonical))


@pytest.mark.parametrize(
    "value",
    [
        "s0",
        None,
        [1],
        S0 / 2,
        sympy.Rational(1, 2),
        sympy.sqrt(S0),
        sympy.sin(S0),
        S0**-1,
        sympy.oo,
        sympy.I,
        sympy.Function("f")(S0),
        sympy.floor(sympy.sin(S0)),
        sympy.Symbol("a") ** sympy.Rational(1, 2),
        sympy.Piecewise((S0, S0 > 1), (1, True)),
    ],
    ids=str,
)
def test_what_is_outside_the_vocabulary_is_refused(value: Any) -> None:
    with pytest.raises(ex.UnsupportedExprError, match="WIR0101"):
        scalar(value)


def test_what_sympy_cannot_work_out_is_refused_clearly() -> None:
    three_over_zero = ex.FloorDiv(3, 0)
    with pytest.raises(ex.UnsupportedExprError, match="cannot be evaluated"):
        scalar(
            sympy.Max(S0, S1, evaluate=False).xreplace({})
            and sympy.Max(S0, three_over_zero, evaluate=False)
        )


@pytest.mark.parametrize(
    "value", [True, 1.5, "s0", None, sympy.Float(2.0), real_symbol("z") > 1, 0.5 * S0]
)
def test_dims_are_integers(value: Any) -> None:
    with pytest.raises(ex.UnsupportedExprError):
        dim(value)


def test_dims() -> None:
    assert dim(3) == 3
    assert type(dim(sympy.Integer(3))) is int
    assert dim(S0 * 2) == 2 * S0
    assert ex.dims([1, S0]) == (1, S0)
    assert ex.product((2, S0, 3)) == 6 * S0
    assert ex.product(()) == 1
    assert dim(S0**S1) == S0**S1
    assert dim(sympy.Max(S0, 2 * S1**S2) - 1)
    assert dim(ex.Where(real_symbol("z") > 1, S0, 2))
    assert dim(ex.Floor(0.5 * S0))
    assert ex.free_symbols(S0 * S1 + 1) == {"s0", "s1"}
    assert ex.free_symbols(3) == frozenset()
    assert ex.is_relation(S0 < 1)
    assert not ex.is_relation(S0 + 1)


def test_a_symbol_has_no_sign() -> None:
    assert sympy.Max(1, S0) != S0
    assert sympy.Symbol("s0") != S0
    assert symbol("s0") == S0
    assert real_symbol("s0") != S0


def _machine_shift(count: int) -> int:
    """A count, unless the result of shifting by it would fill the memory."""
    if count >= 1 << 12:
        raise OverflowError
    return count


#: How Python works out each function.
PYTHON: dict[type, Any] = {
    sympy.Add: lambda *a: sum(a),
    sympy.Mul: lambda *a: math.prod(a),
    sympy.Pow: lambda a, b: a**b,
    sympy.Max: max,
    sympy.Min: min,
    sympy.Abs: abs,
    ex.FloorDiv: lambda a, b: a // b,
    ex.CeilDiv: lambda a, b: -(-a // b),
    ex.Mod: lambda a, b: a % b,
    ex.Where: lambda c, a, b: a if c else b,
    ex.BitAnd: lambda a, b: a & b,
    ex.BitOr: lambda a, b: a | b,
    ex.BitXor: lambda a, b: a ^ b,
    ex.ShiftLeft: lambda a, b: a << _machine_shift(b),
    ex.ShiftRight: lambda a, b: a >> b,
    sympy.Eq: lambda a, b: a == b,
    sympy.Ne: lambda a, b: a != b,
    sympy.Lt: lambda a, b: a < b,
    sympy.Le: lambda a, b: a <= b,
    sympy.Gt: lambda a, b: a > b,
    sympy.Ge: lambda a, b: a >= b,
    sympy.And: lambda *a: all(a),
    sympy.Or: lambda *a: any(a),
    sympy.Not: lambda a: not a,
}


def worked_out(expr: Any, values: dict[str, int]) -> int:
    if isinstance(expr, sympy.Symbol):
        return values[expr.name]
    if expr.is_Integer or expr in (sympy.true, sympy.false):
        return int(bool(expr)) if expr in (sympy.true, sympy.false) else int(expr)
    return PYTHON[type(expr)](*(worked_out(arg, values) for arg in expr.args))


@slowly
@given(strategies.int_exprs, st.lists(st.integers(1, 9), min_size=7, max_size=7))
def test_substituting_gives_what_python_gives(expr: Any, numbers: list[int]) -> None:
    values = dict(zip(strategies.INTS, numbers, strict=True))
    try:
        expected = worked_out(expr, values)
        canonical = scalar(expr)
        found = ex.substitute(canonical, values)
    except (ZeroDivisionError, ValueError, OverflowError, MemoryError, ex.UnsupportedExprError):
        assume(False)
    if isinstance(found, int):
        assert found == expected
    else:
        # Shifts by more than a machine could do are left alone; but no symbol may be left.
        assert not found.free_symbols
        assert worked_out(found, {}) == expected


def test_substituting_some_leaves_the_others() -> None:
    assert ex.substitute(S0 * S1, {"s0": 3}) == 3 * S1
    assert ex.substitute(S0 < 3, {"s0": 2}) is True
    assert ex.substitute(7, {}) == 7


class Plain(ExprPrinter):
    """A printer with few forms, written as a target's author would write it."""

    target = "a plain target"
    forms: ClassVar[dict[type, Form]] = {
        sympy.Add: sum_form,
        sympy.Mul: product_form,
        sympy.Pow: power("^"),
        sympy.Max: nested_call("max"),
        sympy.Min: call("min"),
        ex.FloorDiv: infix("//", Level.PRODUCT),
        ex.BitAnd: bracketed(infix("&", Level.BIT_AND)),
        sympy.Not: prefix("!", Level.UNARY),
        sympy.Lt: infix("<", Level.COMPARE),
    }

    def integer(self, value: int) -> Piece:
        return Piece(str(value), Level.ATOM if value >= 0 else Level.UNARY)

    def real(self, value: float) -> Piece:
        return Piece(repr(value))

    def boolean(self, value: bool) -> Piece:
        return Piece(str(value))

    def symbol(self, name: str, *, is_real: bool) -> Piece:
        return Piece(f"{name}f" if is_real else name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-7, "-7"),
        (True, "True"),
        (sympy.Max(S0, S1, S2, 3), "max(3, max(s0, max(s1, s2)))"),
        (sympy.Min(S0, 3), "min(3, s0)"),
        (ex.BitAnd(S0, S1) < 3, "(s0 & s1) < 3"),
        (ex.FloorDiv(S0, 2) ** 2, "(s0 // 2)^2"),
        ((-S0) ** 3, "-s0^3"),
        (real_symbol("z") + 1, "zf + 1"),
        (-S0, "-s0"),
        (-2 * S0 - S1 - 3, "-2*s0 - s1 - 3"),
        (0.5 * real_symbol("z"), "0.5*zf"),
    ],
)
def test_a_printer_made_of_forms(value: Any, text: str) -> None:
    assert Plain().print(scalar(value)) == text


@pytest.mark.parametrize(
    "value", [ex.Sqrt(S0), S0 >= 1, 1j, sympy.Max(S0, ex.Mod(S1, 2)), sympy.sin(S0)]
)
def test_a_printer_refuses_what_it_has_no_form_for(value: Any) -> None:
    with pytest.raises(ex.UnsupportedExprError):
        Plain().print(value)


def test_the_order_of_arguments_is_ours() -> None:
    names = [symbol(f"s{i}") for i in (10, 2, 1)]
    assert [str(a) for a in ordered_args(sum(names) + 3)] == ["s1", "s2", "s10", "3"]
    assert [str(a) for a in ordered_args(sympy.Max(*names, 3))] == ["3", "s1", "s2", "s10"]
    assert [str(a) for a in ordered_args(ex.FloorDiv(names[0], names[2]))] == ["s10", "s1"]
