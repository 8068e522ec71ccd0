"""Base of expression printers: a strict, precedence-aware walk shared by all targets.

A target subclasses :class:`ExprPrinter`, spells literals and symbols, and maps the classes of the
vocabulary to *forms*: functions that turn an expression into a :class:`Piece`, which is text with a
precedence. :func:`infix`, :func:`prefix`, :func:`call` and others build the usual forms. A class
without a form raises :class:`UnsupportedExprError`; no expression is printed by its sympy name.

Arguments of commutative operations have a fixed order (:func:`ordered_args`), the same for every
target, process and hash seed. So text is stable, and floating-point sums round alike everywhere.
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

__all__ = ["ExprPrinter", "Form", "Level", "Piece", "bracketed", "call", "infix", "nested_call"]
__all__ += ["ordered_args", "prefix"]


class Level(enum.IntEnum):
    """Precedence of operators, loosest first, as in Python.

    In C, comparisons bind tighter than ``& | ^``. A printer for C parenthesizes those itself, see
    :func:`bracketed`.
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
    """Printed text and the precedence of its outermost operator."""

    text: str
    level: int = Level.ATOM

    def within(self, level: int) -> str:
        """Return the text, parenthesized unless it binds at least as tightly as ``level``."""
        return self.text if self.level >= level else f"({self.text})"


class ExprPrinter(ABC):
    """Base of expression printers, with one subclass per target.

    An instance holds no state but a cache, so it may serve a whole program.
    """

    target: ClassVar[str]
    """The name of the target in messages, such as ``the text form``."""

    forms: ClassVar[Mapping[type[sympy.Basic], Form]]
    """The form of each class of the vocabulary except symbols."""

    def __init__(self) -> None:
        self._pieces: dict[sympy.Basic, Piece] = {}

    def print(self, value: Scalar, level: int = Level.LOWEST) -> str:
        """Print a value as an operand that must bind at least as tightly as ``level``.

        Raises:
            UnsupportedExprError: The target has no form for part of the value.
        """
        return self.piece(value).within(level)

    @abstractmethod
    def integer(self, value: int) -> Piece:
        """Spell an integer. A negative one is not an atom."""

    @abstractmethod
    def real(self, value: float) -> Piece:
        """Spell a double, infinities and NaN included."""

    @abstractmethod
    def boolean(self, value: bool) -> Piece:  # noqa: FBT001 - the value is what is printed
        """Spell a truth value."""

    @abstractmethod
    def symbol(self, name: str, *, is_real: bool) -> Piece:
        """Spell a symbol: floating-point if ``is_real``, else an integer."""

    def complex(self, value: complex) -> Piece:
        """Spell a complex number. Targets without complex numbers do not override this.

        Raises:
            UnsupportedExprError: Always, unless overridden.
        """
        raise UnsupportedExprError(expr=value, what="a complex number", hint=self._hint())

    def piece(self, value: Scalar) -> Piece:
        """Print a value with the precedence of its outermost operator.

        Raises:
            UnsupportedExprError: The target has no form for part of the value.
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
"""A function that prints expressions of one class, using the printer for the arguments."""


def infix(operator: str, level: Level, *, spaced: bool = True) -> Form:
    """Return the form ``a op b op c``: left-associative, or non-associative for comparisons."""
    joint = f" {operator} " if spaced else operator
    first = level + 1 if level == Level.COMPARE else level

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        args = ordered_args(expr)
        head = printer.print(args[0], first)
        return Piece(joint.join((head, *(printer.print(a, level + 1) for a in args[1:]))), level)

    return form


def prefix(operator: str, level: Level) -> Form:
    """Return the form ``op a``."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        return Piece(operator + printer.print(expr.args[0], level), level)

    return form


def call(name: str) -> Form:
    """Return the form ``name(a, b, c)``."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        return Piece(f"{name}({', '.join(map(printer.print, ordered_args(expr)))})")

    return form


def nested_call(name: str) -> Form:
    """Return the form ``name(a, name(b, c))``, for functions of exactly two arguments."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        *rest, text = map(printer.print, ordered_args(expr))
        for arg in reversed(rest):
            text = f"{name}({arg}, {text})"
        return Piece(text)

    return form


def bracketed(form: Form) -> Form:
    """Return a form that parenthesizes the text of ``form``."""

    def bracket(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        return Piece(f"({form(printer, expr).text})")

    return bracket


def power(operator: str = "**") -> Form:
    """Return the form ``a**b``, which is right-associative."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        base, exponent = expr.args
        text = printer.print(base, Level.ATOM) + operator + printer.print(exponent, Level.POWER)
        return Piece(text, Level.POWER)

    return form


def sum_form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """Print a sum, with ``-`` for negative coefficients and the constant last."""
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
    """Print a product, with ``-`` for a negative coefficient and the constant first."""
    negative, magnitude = _split_sign(printer, expr)
    return Piece(f"-{magnitude.text}", Level.PRODUCT) if negative else magnitude


def _split_sign(printer: ExprPrinter, term: sympy.Basic) -> tuple[bool, Piece]:
    """Return whether a term is negative, and the text of its magnitude."""
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
    """Print factors. Each must bind tighter than a product, since a sign may be put in front."""
    return Piece("*".join(printer.print(f, Level.PRODUCT + 1) for f in factors), Level.PRODUCT)


_COMMUTATIVE: Final = (sympy.Mul, sympy.Max, sympy.Min, sympy.And, sympy.Or)

COMMUTATIVE: Final = (sympy.Add, *_COMMUTATIVE)
"""Classes whose arguments may be reordered."""


def ordered_args(expr: sympy.Basic) -> tuple[sympy.Basic, ...]:
    """Return the arguments of an expression, in a fixed order for commutative operations.

    The constant of a sum comes last, that of any other operation first.
    """
    if isinstance(expr, sympy.Add):
        terms = sorted(expr.args, key=_key)
        return tuple((*terms[1:], terms[0]) if terms[0].is_Number else terms)
    if isinstance(expr, _COMMUTATIVE):
        return tuple(sorted(expr.args, key=_key))
    return tuple(expr.args)


@lru_cache(maxsize=65536)
def _key(expr: sympy.Basic) -> tuple[int, str, str]:
    """Return a sort key: numbers first, then by structure, with coefficients as tie-breakers."""
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
