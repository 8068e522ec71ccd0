"""Expressions and numbers as text; :mod:`wrapper_ir.text.expr_parse` reads them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import sympy

from wrapper_ir.lines import SymbolInfo, SymbolKind
from wrapper_ir.lines.expr import FUNCTIONS, FloorDiv, Mod, TrueDiv
from wrapper_ir.lines.expr_printer import (
    ExprPrinter,
    Form,
    Level,
    Piece,
    call,
    infix,
    power,
    prefix,
    product_form,
    sum_form,
)
from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.text.words import IDENTIFIER, MAX_DEPTH, MAX_DIGITS, RESERVED, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

#: An integer below this has few enough digits to be printed in decimal.
_DECIMAL_BITS: Final = int(MAX_DIGITS * 3.3)

#: Relations, by operator.
COMPARISONS: Final[dict[str, type[sympy.Basic]]] = {
    "==": sympy.Eq,
    "!=": sympy.Ne,
    "<": sympy.Lt,
    "<=": sympy.Le,
    ">": sympy.Gt,
    ">=": sympy.Ge,
}

#: Operators of the level of products, besides ``*``.
DIVISIONS: Final[dict[str, type[sympy.Basic]]] = {"//": FloorDiv, "%": Mod, "/": TrueDiv}

#: What is written as a call, by name.
CALLS: Final[dict[str, type[sympy.Basic]]] = {
    **{name: cls for name, cls in FUNCTIONS.items() if cls not in DIVISIONS.values()},
    "Max": sympy.Max,
    "Min": sympy.Min,
    "Abs": sympy.Abs,
}


class TextExprPrinter(ExprPrinter):
    """Prints expressions so that the parser gives back an equal one.

    Args:
        symbols: What is declared; a symbol that an expression takes for a real number and its
            declaration for an integer cannot be printed, as it would read back as another.
        strict: Whether names that are no identifiers are refused; else they are quoted.
    """

    target: ClassVar[str] = "the text form"

    forms: ClassVar[Mapping[type[sympy.Basic], Form]] = {
        sympy.Add: sum_form,
        sympy.Mul: product_form,
        sympy.Pow: power(),
        sympy.And: infix("&&", Level.AND),
        sympy.Or: infix("||", Level.OR),
        sympy.Not: prefix("!", Level.UNARY),
        **{cls: infix(operator, Level.COMPARE) for operator, cls in COMPARISONS.items()},
        **{cls: infix(operator, Level.PRODUCT) for operator, cls in DIVISIONS.items()},
        **{cls: call(name) for name, cls in CALLS.items()},
    }

    def __init__(
        self, symbols: Mapping[str, SymbolInfo] | None = None, *, strict: bool = True
    ) -> None:
        super().__init__()
        self._symbols = symbols
        self._strict = strict
        self._depth = 0

    def _expr(self, expr: sympy.Basic) -> Piece:
        if self._depth > MAX_DEPTH:
            raise UnprintableError(
                what="an expression", reason=f"it is nested deeper than {MAX_DEPTH}"
            )
        self._depth += 1
        try:
            return super()._expr(expr)
        finally:
            self._depth -= 1

    def integer(self, value: int) -> Piece:
        """In decimal; in hexadecimal where that would take more than ``MAX_DIGITS`` digits."""
        text = hex(value) if value.bit_length() > _DECIMAL_BITS else str(int(value))
        return Piece(text, Level.ATOM if value >= 0 else Level.UNARY)

    def real(self, value: float) -> Piece:
        """The shortest decimal that reads back as the same double, ``inf`` or ``nan``."""
        text = repr(float(value))
        return Piece(text, Level.UNARY if text.startswith("-") else Level.ATOM)

    def boolean(self, value: bool) -> Piece:  # noqa: FBT001 - the value is what is printed
        """``true`` or ``false``."""
        return Piece("true" if value else "false")

    def complex(self, value: complex) -> Piece:
        """``complex(real, imaginary)``."""
        return Piece(f"complex({value.real!r}, {value.imag!r})")

    def symbol(self, name: str, *, is_real: bool) -> Piece:
        """The bare name; with a dollar sign where it is a word of the text form."""
        info = None if self._symbols is None else self._symbols.get(name)
        declared_real = info is not None and info.kind is SymbolKind.FLOAT
        if self._strict and self._symbols is not None and is_real != declared_real:
            raise UnprintableError(
                what=f"the expression with the symbol '{name}'",
                reason=f"it takes it for {_kind(is_real)}, its declaration for "
                f"{_kind(declared_real)}",
            )
        return Piece(symbol_text(name, strict=self._strict))


def symbol_text(name: str, *, strict: bool = True) -> str:
    """A symbol's name as text.

    Raises:
        UnprintableError: it is no identifier, and ``strict``.
    """
    if IDENTIFIER.fullmatch(name):
        return f"${name}" if name in RESERVED else name
    if strict:
        raise UnprintableError(what=f"the symbol {quote(name)}", reason=NOT_AN_IDENTIFIER)
    return f"${quote(name)}"


NOT_AN_IDENTIFIER: Final = (
    "names are ASCII letters, digits and underscores, and do not start with a digit"
)


def _kind(is_real: bool) -> str:  # noqa: FBT001 - the value is what is named
    return "a floating-point number" if is_real else "an integer"
