"""Expressions drawn at random give in C++ the very bits that they give in Python."""

from __future__ import annotations

import random
from itertools import islice
from typing import TYPE_CHECKING

import pytest

import wrapper_ir as wir
from wrapper_ir.emitters.cpp.exprs import CExpr, CppExprs, CType, convert
from wrapper_ir.lines import SymbolKind, real_symbol, symbol
from wrapper_ir.lines.expr import FloorDiv, ToFloat, Where

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COUNT = 150


class Draw:
    """Expressions in the text form; their denominators are not zero, their numbers stay small."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(["s0", "s1", "s2", str(self.random.randint(1, 9))])
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        forms = (
            *(f"({a} + {b})", f"({a} - {b})", f"(3*({a}) - 2*({b}))", f"Max({a}, {b}, 2)"),
            *(f"({a}) // Max(1, {b})", f"({a}) % Max(3, {b})", f"CeilDiv({a}, Max(2, {b}))"),
            *(f"({a}) // Min(-2, -({b}))", f"({a}) % Min(-3, {b})", f"Min({a}, {b})"),
            *(f"Where({self.truth(depth - 1)}, {a}, {b})", f"Abs({a})", f"-({a})"),
            *(f"BitAnd({a}, {b})", f"BitXor({a}, 5)", f"ShiftRight({a}, 1)"),
            f"Floor({self.real(depth - 1)})",
        )
        return self.random.choice(forms)

    def real(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(["z0", "ToFloat(s0)", "0.1", "2.5"])
        a, b = self.real(depth - 1), self.real(depth - 1)
        i, j = self.integer(depth - 1), self.integer(depth - 1)
        forms = (
            *(f"({a} + {b})", f"({a} - {b})", f"({a})*({b})", f"({i}) / Max(1, {j})"),
            *(f"Sqrt(Abs({a}))", f"Sin({a})", f"Tanh({a})", f"({a} + {i})", f"0.5*({i})"),
            f"Where({self.truth(depth - 1)}, {a}, {b})",
        )
        return self.random.choice(forms)

    def truth(self, depth: int) -> str:
        relation = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        first = f"{self.integer(depth)} {relation} {self.integer(depth)}"
        second = f"{self.real(depth)} < {self.real(depth)}"
        return self.random.choice(
            [first, second, f"({first} && {second})", f"({first} || {second})"]
        )


def drawn_expressions() -> Iterator[tuple[str, str]]:
    """Kinds and texts; of those that fold to something that cannot be worked out, none."""
    draw = Draw(11)
    while True:
        for kind, text in (
            ("float", draw.real(3)),
            ("bool", draw.truth(2)),
            ("int", draw.integer(3)),
        ):
            try:
                wir.parse(program_of([(kind, text)]))
            except wir.WrapperIRError:
                continue
            yield kind, text


def program_of(expressions: Iterable[tuple[str, str]]) -> str:
    found = list(enumerate(expressions))
    lines = [
        *("wir 2", "program @drawn inference planned", ""),
        *("symbol s0 : int", "symbol s1 : int", "symbol s2 : int", "symbol z0 : float"),
        *(f"symbol k{number} : {kind}" for number, (kind, _) in found),
        *("input s0", "input s1", "input s2", "input z0", ""),
        *(f"  k{number} = compute {text}" for number, (_, text) in found),
        f"return {', '.join(f'k{number}' for number, _ in found)}",
    ]
    return "\n".join(lines) + "\n"


def test_drawn_expressions() -> None:
    made = wir.parse(program_of(islice(drawn_expressions(), COUNT)))
    in_python, in_cpp = wir.compile(made), wir.compile(made, "cpp")
    draw = random.Random(3)
    for _ in range(60):
        inputs = [draw.randint(-40, 40) for _ in range(3)] + [draw.uniform(-8, 8)]
        mine, other = in_cpp(*inputs), in_python(*inputs)
        wrong = [
            (line.value, a, b)
            for line, a, b in zip(made.body, mine, other, strict=True)
            if repr(a) != repr(b) and not (type(b) is int and type(a) is float and a == b)
        ]
        assert not wrong[:3], inputs


KINDS = {"z": SymbolKind.FLOAT, "b": SymbolKind.BOOL}


@pytest.fixture
def printer() -> CppExprs:
    return CppExprs(lambda name: name, lambda name: KINDS.get(name, SymbolKind.INT))


def test_types(printer: CppExprs) -> None:
    s, t, z = symbol("s"), symbol("t"), real_symbol("z")
    assert printer.expr(s + 1) == CExpr("s + 1", CType.INT)
    assert printer.expr(z + s).type is CType.REAL
    assert printer.expr(s < t).type is CType.BOOL
    assert printer.expr(ToFloat(s)) == CExpr("wir::to_real(s)", CType.REAL)
    assert printer.expr(Where(s < t, s, 2)) == CExpr("s < t ? wir::Int(s) : wir::Int(2)", CType.INT)
    assert printer.expr(FloorDiv(s, t)) == CExpr("wir::floor_div(s, t)", CType.INT)
    assert printer.expr(symbol("b")) == CExpr("b", CType.BOOL)
    assert printer.expr(symbol("b") + s).text == "wir::Int(b) + s"


def test_conversions() -> None:
    number, truth = CExpr("s + 1", CType.INT), CExpr("b", CType.BOOL)
    assert convert(number, CType.INT64).text == "s + 1"
    assert convert(number, CType.REAL).text == "wir::to_real(s + 1)"
    assert convert(number, CType.INT32).text == "wir::narrow<std::int32_t>(s + 1)"
    assert convert(number, CType.BOOL).text == "wir::Int(s + 1) != 0"
    assert convert(truth, CType.INT).text == "wir::Int(b)"
    assert convert(truth, CType.FLOAT).text == "static_cast<float>(wir::to_real(b))"
    assert convert(CExpr("2", CType.INT, is_literal=True), CType.REAL).text == "2"
