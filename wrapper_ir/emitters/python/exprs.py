"""Symbolic expressions as Python: exact, with black's spacing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final

import sympy
from typing_extensions import override

from wrapper_ir.emitters.writer import ORDER, TRANSCENDENTAL, spaced_product, spaced_sum
from wrapper_ir.lines import expr as vocabulary
from wrapper_ir.lines.expr_printer import ExprPrinter, Form, Level, Piece, call, infix, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MATH_FUNCTIONS", "PythonExprs"]

MATH_FUNCTIONS: Final = ("ceil", "cos", "exp", "floor", "log", "log2", "sin", "sqrt", "tanh")
"""Functions of the runtime package that expressions may call, besides builtins."""


def _math(name: str) -> Form:
    """Print ``name(a)`` and record that the file needs the function."""
    plain = call(name)

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        if isinstance(printer, PythonExprs):
            printer.used.add(name)
        return plain(printer, expr)

    return form


def _power(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """Print ``a**2``; black omits the spaces if both sides are names or numbers."""
    base, exponent = expr.args
    hugs = base.is_Atom and exponent.is_Atom
    joint = "**" if hugs else " ** "
    text = printer.print(base, Level.ATOM) + joint + printer.print(exponent, Level.POWER)
    return Piece(text, Level.POWER)


def _ceil_div(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """Print ``-(-a // b)``, which is exact where a float quotient is not."""
    a, b = expr.args
    inner = f"-{printer.print(a, Level.POWER)} // {printer.print(b, Level.UNARY)}"
    return Piece(f"-({inner})", Level.UNARY)


def _where(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    condition, a, b = expr.args
    tight = Level.OR
    text = " if ".join((printer.print(a, tight), printer.print(condition, tight)))
    return Piece(f"{text} else {printer.print(b, Level.CONDITIONAL)}", Level.CONDITIONAL)


def _float_power(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    base, exponent = (
        printer.print(a, Level.ATOM) if isinstance(a, sympy.Float) else f"float({printer.print(a)})"
        for a in expr.args
    )
    return Piece(f"{base} ** {exponent}", Level.POWER)


class PythonExprs(ExprPrinter):
    """Prints expressions as Python.

    Args:
        names: Maps a symbol to its identifier.
    """

    target = "Python"

    forms: ClassVar[Mapping[type[sympy.Basic], Form]] = {
        sympy.Add: spaced_sum,
        sympy.Mul: spaced_product,
        sympy.Pow: _power,
        sympy.Max: call("max"),
        sympy.Min: call("min"),
        sympy.Abs: call("abs"),
        sympy.Eq: infix("==", Level.COMPARE),
        sympy.Ne: infix("!=", Level.COMPARE),
        **ORDER,
        sympy.And: infix("and", Level.AND),
        sympy.Or: infix("or", Level.OR),
        sympy.Not: prefix("not ", Level.NOT),
        vocabulary.FloorDiv: infix("//", Level.PRODUCT),
        vocabulary.CeilDiv: _ceil_div,
        vocabulary.Mod: infix("%", Level.PRODUCT),
        vocabulary.Where: _where,
        vocabulary.Truncate: call("int"),
        vocabulary.Floor: _math("floor"),
        vocabulary.Ceil: _math("ceil"),
        vocabulary.Round: call("round"),
        vocabulary.BitAnd: infix("&", Level.BIT_AND),
        vocabulary.BitOr: infix("|", Level.BIT_OR),
        vocabulary.BitXor: infix("^", Level.BIT_XOR),
        vocabulary.ShiftLeft: infix("<<", Level.SHIFT),
        vocabulary.ShiftRight: infix(">>", Level.SHIFT),
        vocabulary.ToFloat: call("float"),
        vocabulary.TrueDiv: infix("/", Level.PRODUCT),
        vocabulary.FloatPow: _float_power,
        **{function: _math(function.__name__.lower()) for function in TRANSCENDENTAL},
    }

    def __init__(self, names: Callable[[str], str]) -> None:
        super().__init__()
        self._names = names
        #: The MATH_FUNCTIONS that the printed expressions call.
        self.used: set[str] = set()

    @override
    def integer(self, value: int) -> Piece:
        return Piece(str(value), Level.ATOM if value >= 0 else Level.UNARY)

    @override
    def real(self, value: float) -> Piece:
        if math.isnan(value) or math.isinf(value):
            return Piece(f'float("{value}")')
        level = Level.UNARY if math.copysign(1.0, value) < 0 else Level.ATOM
        return Piece(repr(value), level)

    @override
    def boolean(self, value: bool) -> Piece:
        return Piece(str(value))

    @override
    def complex(self, value: complex) -> Piece:
        return Piece(f"complex({self.real(value.real).text}, {self.real(value.imag).text})")

    @override
    def symbol(self, name: str, *, is_real: bool) -> Piece:
        return Piece(self._names(name))
