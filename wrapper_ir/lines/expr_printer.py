"""Printing expressions: one strict, precedence-aware walk that every target's printer shares.

A target subclasses :class:`ExprPrinter`, spells literals and symbols, and gives a table from the
classes of the vocabulary to *forms*: functions that turn an expression into a :class:`Piece`, text
with how tightly it holds together. :func:`infix`, :func:`prefix`, :func:`call` and their like make
the usual forms. A class without a form raises :class:`UnsupportedExprError`; nothing is ever
printed by its own name by accident.

Arguments of commutative operations come in an order of ours (:func:`ordered_args`), the same for
every target, process and hash seed: so text is stable, and floating-point sums round alike
everywhere.
"""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple, TypeAlias

import sympy
from sympy.logic.boolalg import BooleanAtom

from wrapper_ir.lines.expr import VOCABULARY, Scalar, UnsupportedExprError

__all__ = [
    "ExprPrinter",
    "Form",
    "Level",
    "Piece",
    "bracketed",
    "call",
    "infix",
    "nested_call",
    "ordered_args",
    "prefix",
]


class Level(enum.IntEnum):
    """Precedence of operators, loosest first.

    The order is Python's. In C comparisons bind tighter than ``& | ^``: a printer for such a target
    gives those a form that sets its own brackets, see :func:`bracketed`.
    """

    LOWEST = 0
    CONDITIONAL = 1
    OR = 2
    AND = 3
    NOT = 4
    COMPARE = 5
    BIT_OR = 6
    BIT_XOR = 7
    BIT_AND = 8
    SHIFT = 9
    SUM = 10
    PRODUCT = 11
    UNARY = 12
    POWER = 13
    ATOM = 14


class Piece(NamedTuple):
    """Printed text and the level of its outermost operator."""

    text: str
    level: int = Level.ATOM

    def within(self, level: int) -> str:
        """The text as an operand that must bind at least as tightly as ``level``."""
        return self.text if self.level >= level else f"({self.text})"


class ExprPrinter(ABC):
    """Base of the printers of expressions, one subclass a target.

    An instance holds no state but a cache, so one may serve a whole program.
    """

    target: ClassVar[str]
    """What is printed, in words, for messages: ``the text form``."""

    forms: ClassVar[Mapping[type[sympy.Basic], Form]]
    """How each class of the vocabulary is printed, symbols excepted."""

    def __init__(self) -> None:
        self._pieces: dict[sympy.Basic, Piece] = {}

    def print(self, value: Scalar, level: int = Level.LOWEST) -> str:
        """The value as an operand that must bind at least as tightly as ``level``.

        Raises:
            UnsupportedExprError: the target has no form for something in it.
        """
        return self.piece(value).within(level)

    @abstractmethod
    def integer(self, value: int) -> Piece:
        """Spells an integer; a negative one is not an atom."""

    @abstractmethod
    def real(self, value: float) -> Piece:
        """Spells a double, infinities and NaN included."""

    @abstractmethod
    def boolean(self, value: bool) -> Piece:  # noqa: FBT001 - the value is what is printed
        """Spells a truth value."""

    @abstractmethod
    def symbol(self, name: str, *, is_real: bool) -> Piece:
        """Spells a symbol; ``is_real`` tells a floating-point one from an integer one."""

    def complex(self, value: complex) -> Piece:
        """Spells a complex number; a target that has none leaves this as it is.

        Raises:
            UnsupportedExprError: unless overridden.
        """
        raise UnsupportedExprError(expr=value, what="a complex number", hint=self._hint())

    def piece(self, value: Scalar) -> Piece:
        """The value with the level of its outermost operator.

        Raises:
            UnsupportedExprError: the target has no form for something in it.
        """
        if isinstance(value, bool):
            return self.boolean(value)
        if isinstance(value, int):
            return self.integer(value)
        if isinstance(value, float):
            return self.real(value)
        if isinstance(value, complex):
            return self.complex(value)
        found = self._pieces.get(value)
        if found is None:
            found = self._pieces[value] = self._expr(value)
        return found

    def _expr(self, expr: sympy.Basic) -> Piece:
        if isinstance(expr, sympy.Integer):
            return self.integer(int(expr))
        if isinstance(expr, sympy.Float):
            return self.real(float(expr))
        if isinstance(expr, BooleanAtom):
            return self.boolean(bool(expr))
        if isinstance(expr, sympy.Symbol):
            return self.symbol(expr.name, is_real=expr.is_integer is not True)
        form = self.forms.get(type(expr))
        if form is None:
            what = f"'{type(expr).__name__}'"
            hint = self._hint() if type(expr) in VOCABULARY else None
            raise UnsupportedExprError(expr=expr, what=what, hint=hint)
        return form(self, expr)

    def _hint(self) -> str:
        return f"it has no form in {self.target}"


Form: TypeAlias = Callable[[ExprPrinter, sympy.Basic], Piece]
"""Turns an expression of one class into text; asks the printer for its arguments."""


def infix(operator: str, level: Level, *, spaced: bool = True) -> Form:
    """``a op b op c``: groups to the left, or, for comparisons, not at all."""
    joint = f" {operator} " if spaced else operator
    first = level + 1 if level == Level.COMPARE else level

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        args = ordered_args(expr)
        head = printer.print(args[0], first)
        return Piece(joint.join((head, *(printer.print(a, level + 1) for a in args[1:]))), level)

    return form


def prefix(operator: str, level: Level) -> Form:
    """``op a``."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        return Piece(operator + printer.print(expr.args[0], level), level)

    return form


def call(name: str) -> Form:
    """``name(a, b, c)``."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        return Piece(f"{name}({', '.join(map(printer.print, ordered_args(expr)))})")

    return form


def nested_call(name: str) -> Form:
    """``name(a, name(b, c))``, for functions of two arguments that the expression gives more to."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        *rest, text = map(printer.print, ordered_args(expr))
        for arg in reversed(rest):
            text = f"{name}({arg}, {text})"
        return Piece(text)

    return form


def bracketed(form: Form) -> Form:
    """Return a form that puts brackets around what ``form`` gives."""

    def bracket(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        return Piece(f"({form(printer, expr).text})")

    return bracket


def power(operator: str = "**") -> Form:
    """``a**b``, which groups to the right."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        base, exponent = expr.args
        text = printer.print(base, Level.ATOM) + operator + printer.print(exponent, Level.POWER)
        return Piece(text, Level.POWER)

    return form


def sum_form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """A sum, with ``-`` before the terms whose coefficient is negative and the number last."""
    text = ""
    for term in ordered_args(expr):
        negative, magnitude = _split_sign(printer, term)
        if text:
            text += f" {'-' if negative else '+'} {magnitude.within(Level.PRODUCT)}"
        elif negative:
            text = f"-{magnitude.within(Level.PRODUCT)}"
        else:
            text = magnitude.within(Level.SUM)
    return Piece(text, Level.SUM)


def product_form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """A product, ``-`` before it where the coefficient is negative and the number first."""
    negative, magnitude = _split_sign(printer, expr)
    return Piece(f"-{magnitude.text}", Level.PRODUCT) if negative else magnitude


def _split_sign(printer: ExprPrinter, term: sympy.Basic) -> tuple[bool, Piece]:
    """Return whether a term is negative, and its magnitude printed."""
    if isinstance(term, (sympy.Integer, sympy.Float)):
        negative = bool(term < 0)
        return negative, printer.piece(-term if negative else term)
    if not isinstance(term, sympy.Mul):
        return False, printer.piece(term)
    first, *rest = ordered_args(term)
    if not isinstance(first, (sympy.Integer, sympy.Float)):
        return False, _factors(printer, (first, *rest))
    negative = bool(first < 0)
    first = -first if negative else first
    return negative, _factors(printer, rest if first == 1 else (first, *rest))


def _factors(printer: ExprPrinter, factors: Sequence[sympy.Basic]) -> Piece:
    """The factors of a product; each must bind tighter, as a sign may come to stand before it."""
    return Piece("*".join(printer.print(f, Level.PRODUCT + 1) for f in factors), Level.PRODUCT)


_COMMUTATIVE: Final = (sympy.Mul, sympy.Max, sympy.Min, sympy.And, sympy.Or)

COMMUTATIVE: Final = (sympy.Add, *_COMMUTATIVE)
"""Classes whose arguments have no order of their own."""


def ordered_args(expr: sympy.Basic) -> tuple[sympy.Basic, ...]:
    """The arguments of an expression, those of commutative operations in our own fixed order.

    The number of a sum comes last, that of any other operation first.
    """
    if isinstance(expr, sympy.Add):
        terms = sorted(expr.args, key=_key)
        return tuple((*terms[1:], terms[0]) if terms[0].is_Number else terms)
    if isinstance(expr, _COMMUTATIVE):
        return tuple(sorted(expr.args, key=_key))
    return tuple(expr.args)


@lru_cache(maxsize=65536)
def _key(expr: sympy.Basic) -> tuple[int, str, str]:
    """Numbers first, then by the text of the structure; coefficients count last."""
    if expr.is_Number:
        return (0, "", str(expr))
    if isinstance(expr, sympy.Mul) and ordered_args(expr)[0].is_Number:
        number, *rest = ordered_args(expr)
        return (1, "*".join(_key(arg)[1] for arg in rest), str(number))
    if isinstance(expr, sympy.Symbol):
        return (1, _DIGITS.sub(lambda m: m[0].zfill(8), expr.name), "")
    joint = {sympy.Mul: "*", sympy.Add: "+", sympy.Pow: "^"}.get(type(expr), ",")
    inside = joint.join("".join(_key(arg)[1:]) for arg in ordered_args(expr))
    if isinstance(expr, (sympy.Mul, sympy.Pow)):
        return (1, inside, "")
    return (1, f"~{type(expr).__name__}({inside})", "")  # after every symbol


_DIGITS: Final = re.compile(r"\d+", re.ASCII)
