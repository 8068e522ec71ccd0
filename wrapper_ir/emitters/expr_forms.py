"""Sums and products as code: spaced as formatters space them, a sign where a reader looks for it.

Every target that writes ``a - 2 * b`` shares these, so that terms come in the same order and
floating-point sums round alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

from wrapper_ir.lines.expr_printer import Level, Piece, ordered_args

if TYPE_CHECKING:
    from wrapper_ir.lines.expr_printer import ExprPrinter


def spaced_sum(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """``a - 2 * b + 1``."""
    text = ""
    for term in ordered_args(expr):
        negative, magnitude = split_sign(term)
        printed = printer.print(magnitude, Level.PRODUCT)
        if not text:
            text = f"-{printer.print(magnitude, Level.ATOM)}" if negative else printed
        else:
            text += f" {'-' if negative else '+'} {printed}"
    return Piece(text, Level.SUM)


def spaced_product(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """``-(2 * a * b)``; with spaces around ``*``, the sign would else bind tighter."""
    negative, magnitude = split_sign(expr)
    if negative:
        return Piece(f"-{printer.print(magnitude, Level.ATOM)}", Level.UNARY)
    first, *rest = ordered_args(expr)
    head = printer.print(first, Level.PRODUCT)
    tail = (printer.print(factor, Level.PRODUCT + 1) for factor in rest)
    return Piece(" * ".join((head, *tail)), Level.PRODUCT)


def split_sign(term: sympy.Basic) -> tuple[bool, sympy.Basic]:
    """Tell whether a term is a negative number times something, and its magnitude."""
    if isinstance(term, (sympy.Integer, sympy.Float)):
        return bool(term < 0), abs(term)
    if not isinstance(term, sympy.Mul):
        return False, term
    number, *rest = ordered_args(term)
    if not (isinstance(number, (sympy.Integer, sympy.Float)) and number < 0):
        return False, term
    factors = rest if number == -1 else (-number, *rest)
    # Evaluated, the product would be multiplied out again.
    return True, factors[0] if len(factors) == 1 else sympy.Mul(*factors, evaluate=False)
