"""What is proved about symbolic sizes is true, and what planning needs can be proved."""

from __future__ import annotations

import itertools

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper_ir.analysis.proof import Facts, same
from wrapper_ir.lines import (
    DType,
    FrozenMap,
    Layout,
    Program,
    SymbolInfo,
    symbol,
)
from wrapper_ir.lines.expr import (
    CeilDiv,
    FloorDiv,
    Mod,
    UnsupportedExprError,
    dim,
    substitute,
)

S, T = symbol("s"), symbol("t")


def facts(s: tuple[int | None, int | None], t: tuple[int | None, int | None]) -> Facts:
    infos = {"s": SymbolInfo(lower=s[0], upper=s[1]), "t": SymbolInfo(lower=t[0], upper=t[1])}
    return Facts(Program(symbols=FrozenMap(infos)))


def _grow(inner: st.SearchStrategy[sympy.Expr]) -> st.SearchStrategy[sympy.Expr]:
    numbers = st.integers(1, 5).map(sympy.Integer)
    return st.one_of(
        st.builds(sympy.Add, inner, inner),
        st.builds(sympy.Mul, inner, inner),
        st.builds(sympy.Max, inner, inner),
        st.builds(sympy.Min, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(FloorDiv, inner, numbers),
        st.builds(CeilDiv, inner, numbers),
        st.builds(Mod, inner, numbers),
        st.builds(FloorDiv, inner, st.sampled_from([S, T])),
    )


LEAVES = st.one_of(st.integers(-4, 4).map(sympy.Integer), st.sampled_from([S, T]))
EXPRESSIONS = st.recursive(LEAVES, _grow, max_leaves=6)
RANGES = st.tuples(st.integers(-3, 3), st.integers(0, 5)).map(lambda r: (r[0], r[0] + r[1]))


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, RANGES, RANGES, st.booleans())
def test_what_is_proved_holds_for_every_value(
    expr: sympy.Expr, s: tuple[int, int], t: tuple[int, int], bounded: bool
) -> None:
    expr = dim(expr)
    known = facts(s if bounded else (s[0], None), t if bounded else (t[0], None))
    nonnegative, negative = known.nonnegative(expr), known.negative(expr)
    assert not (nonnegative and negative)
    extra = 0 if bounded else 6
    for a, b in itertools.product(range(s[0], s[1] + 1 + extra), range(t[0], t[1] + 1 + extra)):
        try:
            value = substitute(expr, {"s": a, "t": b})
        except UnsupportedExprError:
            continue  # sympy does not compare a division by zero with a number
        if type(value) is not int:
            continue  # elsewhere a division by zero stays a division
        assert value >= 0 or not nonnegative
        assert value < 0 or not negative


@pytest.mark.parametrize(
    ("expr", "s", "t"),
    [
        (S * S - S, (1, None), (0, None)),
        (S * T - S, (0, None), (1, None)),
        (4 * S - 8 * FloorDiv(S, 2), (None, None), (0, None)),
        (4 * S * T - 8 * T * FloorDiv(S, 2), (None, None), (0, None)),
        (4 * FloorDiv(S * T, 2) - 4 * T * FloorDiv(S, 2), (0, None), (0, None)),
        (3 * FloorDiv(S * T, 3) - 3 * T * FloorDiv(S, 3), (0, None), (0, None)),
        (4 * CeilDiv(S, 4) - S, (None, None), (0, None)),
        (sympy.Max(1, S) * T - S * T, (1, None), (0, None)),
        (64 * CeilDiv(S, 64) - 64 * FloorDiv(S, 64), (0, None), (0, None)),
        (48 * S - 4 * T * FloorDiv(12 * S, T), (None, None), (1, None)),
        (S + T - 1 - T * CeilDiv(S, T), (None, None), (1, None)),
        (T * FloorDiv(S, T) - S + T - 1, (None, None), (1, None)),
        (S**2 - 2 * T * FloorDiv(S**2, 2 * T), (None, None), (1, None)),
        (S * T - T**2 * FloorDiv(S, T), (0, None), (1, None)),
        (7 - Mod(S, 8), (None, None), (0, None)),
        (sympy.Max(S, 3) - 3, (None, None), (0, None)),
        (10 - S, (None, 10), (0, None)),
        ((S + 1) * (T + 2) - S * T, (0, None), (0, None)),
    ],
)
def test_provable(
    expr: sympy.Expr, s: tuple[int | None, int | None], t: tuple[int | None, int | None]
) -> None:
    assert facts(s, t).nonnegative(dim(expr))


@pytest.mark.parametrize(
    "expr",
    [
        S - T,
        S - 1,
        S * T - S,
        -S,
        S - 2 * FloorDiv(S, 2) - 1,
        FloorDiv(S, 2) + FloorDiv(T, 2) - FloorDiv(S + T, 2),
        2 * T * FloorDiv(S, 2) - FloorDiv(2 * S * T, 2),
        S - T * FloorDiv(S, T),
        2 * S - 3 * (T + 1) * FloorDiv(S, T + 1),
    ],
)
def test_not_provable(expr: sympy.Expr) -> None:
    assert not facts((0, None), (0, None)).nonnegative(dim(expr))


def test_a_symbol_that_is_a_size_is_not_negative_and_one_that_is_only_an_offset_may_be() -> None:
    layout = Layout(DType.FLOAT32, Layout.contiguous(DType.FLOAT32, ()).device, (S,), (1,), T)
    program = Program(
        buffers=FrozenMap({"x": layout}),
        symbols=FrozenMap({"s": SymbolInfo(), "t": SymbolInfo()}),
    )
    assert Facts(program).nonnegative(S)
    assert not Facts(program).nonnegative(T)


def test_hints_prove_nothing() -> None:
    program = Program(symbols=FrozenMap({"s": SymbolInfo(hint=64)}))
    assert not Facts(program).nonnegative(S)


def test_equal_for_all_values() -> None:
    assert same(S * (T + 1), S * T + S)
    assert not same(S, T)
    assert same(4, 4)


def test_a_hint_may_refute_but_not_prove_and_powers_are_not_worked_out() -> None:
    symbols = {"s0": SymbolInfo(lower=1, hint=99_999_999_999), "s1": SymbolInfo(lower=0, hint=5)}
    facts = Facts(Program(symbols=FrozenMap(symbols)))
    s0, s1 = symbol("s0"), symbol("s1")
    assert facts.sample(s0 + 2 * s1) == 99_999_999_999 + 10
    assert facts.sample(2**s0) is None
    assert facts.exceeds(s0, 0)
    assert not facts.exceeds(s1, 4)  # true at the hint, not always
