"""Expressions and numbers: printer and parser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import sympy
from sympy.logic.boolalg import Boolean

import wrapper_ir.lines as ir
from wrapper_ir.lines import dim, scalar, symbol
from wrapper_ir.lines import expr_printer as printing
from wrapper_ir.lines.expr import FUNCTIONS, FloorDiv, Mod, TrueDiv
from wrapper_ir.lines.expr_printer import ExprPrinter, Form, Level, Piece
from wrapper_ir.text import errors
from wrapper_ir.text.words import IDENTIFIER, MAX_DEPTH, MAX_DIGITS, RESERVED, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.text.tokens import Cursor


#: The most bits of an integer that is printed in decimal.
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

#: Operators with the precedence of products, except ``*``.
DIVISIONS: Final[dict[str, type[sympy.Basic]]] = {"//": FloorDiv, "%": Mod, "/": TrueDiv}

#: Functions that are written as calls, by name.
CALLS: Final[dict[str, type[sympy.Basic]]] = {
    **{name: cls for name, cls in FUNCTIONS.items() if cls not in DIVISIONS.values()},
    "Max": sympy.Max,
    "Min": sympy.Min,
    "Abs": sympy.Abs,
}


class TextExprPrinter(ExprPrinter):
    """Prints expressions so that they are parsed as equal ones.

    A symbol that is real in an expression but declared as an integer, or vice versa, cannot be
    printed: it would be parsed as the other. If not strict, names that are no identifiers are
    quoted.
    """

    target: ClassVar[str] = "the text form"

    forms: ClassVar[Mapping[type[sympy.Basic], Form]] = {
        sympy.Add: printing.sum_form,
        sympy.Mul: printing.product_form,
        sympy.Pow: printing.power(),
        sympy.And: printing.infix("&&", Level.AND),
        sympy.Or: printing.infix("||", Level.OR),
        sympy.Not: printing.prefix("!", Level.UNARY),
        **{cls: printing.infix(operator, Level.COMPARE) for operator, cls in COMPARISONS.items()},
        **{cls: printing.infix(operator, Level.PRODUCT) for operator, cls in DIVISIONS.items()},
        **{cls: printing.call(name) for name, cls in CALLS.items()},
    }

    def __init__(
        self, symbols: Mapping[str, ir.SymbolInfo] | None = None, *, strict: bool = True
    ) -> None:
        super().__init__()
        self._symbols = symbols
        self._strict = strict
        self._depth = 0

    def _expr(self, expr: sympy.Basic) -> Piece:
        if self._depth > MAX_DEPTH:
            reason = f"it is nested deeper than {MAX_DEPTH}"
            raise errors.UnprintableError(what="an expression", reason=reason)
        self._depth += 1
        try:
            return super()._expr(expr)
        finally:
            self._depth -= 1

    def integer(self, value: int) -> Piece:
        """Spell an integer in decimal, or in hexadecimal beyond ``MAX_DIGITS`` digits."""
        text = hex(value) if value.bit_length() > _DECIMAL_BITS else str(int(value))
        return Piece(text, Level.ATOM if value >= 0 else Level.UNARY)

    def real(self, value: float) -> Piece:
        """Return the shortest decimal that is parsed as the same double, ``inf`` or ``nan``."""
        text = repr(float(value))
        return Piece(text, Level.UNARY if text.startswith("-") else Level.ATOM)

    def boolean(self, value: bool) -> Piece:  # noqa: FBT001 - the value is what is printed
        """Return ``true`` or ``false``."""
        return Piece("true" if value else "false")

    def complex(self, value: complex) -> Piece:
        """Return ``complex(real, imaginary)``."""
        return Piece(f"complex({value.real!r}, {value.imag!r})")

    def symbol(self, name: str, *, is_real: bool) -> Piece:
        """Return the name, with a dollar sign if it is a keyword."""
        info = None if self._symbols is None else self._symbols.get(name)
        declared_real = info is not None and info.kind is ir.SymbolKind.FLOAT
        if self._strict and self._symbols is not None and is_real != declared_real:
            reason = f"it is {_kind(is_real)} here, but declared as {_kind(declared_real)}"
            raise errors.UnprintableError(
                what=f"the expression with the symbol '{name}'", reason=reason
            )
        return Piece(symbol_text(name, strict=self._strict))


def symbol_text(name: str, *, strict: bool = True) -> str:
    """Return the text of a symbol."""
    if IDENTIFIER.fullmatch(name):
        return f"${name}" if name in RESERVED else name
    if strict:
        raise errors.UnprintableError(what=f"the symbol {quote(name)}", reason=NOT_AN_IDENTIFIER)
    return f"${quote(name)}"


NOT_AN_IDENTIFIER: Final = (
    "names are ASCII letters, digits and underscores, and do not start with a digit"
)


def _kind(is_real: bool) -> str:  # noqa: FBT001 - the value is what is named
    return "a floating-point number" if is_real else "an integer"


# Parsing.
#
# Each operation is built with all its operands at once, as :func:`wrapper_ir.lines.expr.scalar`
# does. Sympy evaluates ``Mul(2, s0 + 1)`` to ``2*s0 + 2`` but leaves ``Mul(2, s0 + 1, s1)`` alone,
# so building a product factor by factor would not restore the printed expression.

Operand: TypeAlias = Any
"""A Python number or a sympy object. Sympy is untyped."""

#: The most bits of a constant power that is evaluated.
_POWER_BITS: Final = 1 << 16

_LEVELS: Final[dict[str, Level]] = {
    "||": Level.OR,
    "&&": Level.AND,
    **dict.fromkeys(COMPARISONS, Level.COMPARE),
    **dict.fromkeys("+-", Level.SUM),
}

_WORDS: Final[dict[str, ir.Scalar]] = {
    "true": True,
    "false": False,
    "inf": math.inf,
    "nan": math.nan,
}

_END: Final = frozenset((",", ")", "]", "}", ""))


class ExprParser:
    """Parser of expressions. It knows which symbols are floating-point."""

    def __init__(self) -> None:
        self._symbols: dict[str, sympy.Symbol] = {}
        self._depth = 0

    def declare(self, name: str, *, is_real: bool) -> bool:
        """Declare the kind of a symbol. Return False if it was used as the other kind before.

        Undeclared symbols are integers.
        """
        wanted = ir.real_symbol(name) if is_real else symbol(name)
        return bool(self._symbols.setdefault(name, wanted) == wanted)

    def dim(self, cursor: Cursor) -> ir.Dim:
        """Read an integer-valued expression."""
        token = cursor.tokens[cursor.at]
        if token.isdecimal() and len(token) < 19 and cursor.tokens[cursor.at + 1] in _END:
            cursor.at += 1
            return int(token)
        start = cursor.at
        return _computed(cursor, start, dim, [self._expr(cursor)])

    def scalar(self, cursor: Cursor) -> ir.Scalar:
        """Read a number, boolean or expression."""
        token = cursor.tokens[cursor.at]
        if token.isdecimal() and len(token) < 19 and cursor.tokens[cursor.at + 1] in _END:
            cursor.at += 1
            return int(token)
        start = cursor.at
        if token == "complex" and cursor.tokens[cursor.at + 1] == "(":
            return self._complex(cursor)
        return _computed(cursor, start, scalar, [self._expr(cursor)])

    def _expr(self, cursor: Cursor, level: Level = Level.OR) -> Operand:
        """Read an expression whose operators bind at least as tightly as ``level``."""
        self._enter(cursor)
        try:
            left = self._product(cursor)
            while (found := _LEVELS.get(cursor.next)) is not None and found >= level:
                if found is Level.SUM:
                    left = self._sum(cursor, left)
                elif found is Level.COMPARE:
                    left = self._comparison(cursor, left)
                else:
                    left = self._connective(cursor, cursor.next, left)
        except RecursionError:
            cursor.fail(
                "this expression is nested too deeply to be evaluated", errors.NestingTextError
            )
        self._depth -= 1
        return left

    def _enter(self, cursor: Cursor) -> None:
        """Enter a nesting level; fail if that is too deep. A failure ends parsing."""
        if self._depth > MAX_DEPTH:
            cursor.fail(f"an expression is nested deeper than {MAX_DEPTH}", errors.NestingTextError)
        self._depth += 1

    def _sum(self, cursor: Cursor, first: Operand) -> Operand:
        at = cursor.at
        terms = [first]
        while (operator := cursor.tokens[cursor.at]) in ("+", "-"):
            cursor.at += 1
            terms.append(self._product(cursor, negative=operator == "-"))
        return _build(cursor, at, sympy.Add, terms)

    def _product(self, cursor: Cursor, *, negative: bool = False) -> Operand:
        """Read factors up to an operator that binds looser. A leading sign negates the product."""
        at = cursor.at
        if cursor.tokens[at] == "-":
            cursor.at += 1
            negative = not negative
        factors = [self._unary(cursor)]
        while True:
            operator = cursor.tokens[cursor.at]
            if operator == "*":
                cursor.at += 1
                factors.append(self._unary(cursor))
            elif operator in DIVISIONS:
                position = cursor.at
                left = _signed(cursor, position, factors, negative=negative)
                cursor.at += 1
                right = self._unary(cursor)
                factors = [_build(cursor, position, DIVISIONS[operator], [left, right])]
                negative = False
            else:
                return _signed(cursor, at, factors, negative=negative)

    def _comparison(self, cursor: Cursor, left: Operand) -> Operand:
        at = cursor.at
        operator = cursor.take()
        right = self._expr(cursor, Level.SUM)
        if cursor.tokens[cursor.at] in COMPARISONS:
            cursor.fail("comparisons do not chain", errors.ExprTextError, hint="join them with &&")
        return _build(cursor, at, COMPARISONS[operator], [left, right])

    def _connective(self, cursor: Cursor, operator: str, first: Operand) -> Operand:
        at = cursor.at
        args = [first]
        tighter = Level.AND if operator == "||" else Level.COMPARE
        while cursor.accept(operator):
            args.append(self._expr(cursor, tighter))
        return _build(cursor, at, sympy.And if operator == "&&" else sympy.Or, args)

    def _unary(self, cursor: Cursor) -> Operand:
        at = cursor.at
        token = cursor.tokens[at]
        if token in ("-", "!"):
            self._enter(cursor)
            cursor.at += 1
            operand = self._unary(cursor)
            self._depth -= 1
            if token == "-":
                return _signed(cursor, at, [operand], negative=True)
            return _build(cursor, at, sympy.Not, [operand])
        base = self._primary(cursor)
        if cursor.tokens[cursor.at] != "**":
            return base
        at = cursor.at
        cursor.at += 1
        self._enter(cursor)
        exponent = self._unary(cursor)
        self._depth -= 1
        return _power(cursor, at, base, exponent)

    def _primary(self, cursor: Cursor) -> Operand:
        token = cursor.tokens[cursor.at]
        if token[:1].isdecimal() and token.isascii():
            return _number(cursor)
        if token == "(":
            cursor.at += 1
            value = self._expr(cursor)
            cursor.expect(")")
            return value
        if token in _WORDS:
            cursor.at += 1
            return _WORDS[token]
        if token[:1] == "$" and len(token) > 1:
            cursor.at += 1
            return self._symbol(token[1:])
        if not IDENTIFIER.fullmatch(token):
            if token[:1] != "%":
                cursor.fail_expecting("an expression")
            reason = f"expected an expression, but found the buffer '{token}'"
            cursor.fail(reason, hint="the remainder operator needs spaces: 's0 % s1'")
        if cursor.tokens[cursor.at + 1] == "(":
            return self._call(cursor, token)
        if token in RESERVED:
            hint = f"write ${token} for the symbol with this name"
            cursor.fail(f"expected an expression, but found '{token}'", hint=hint)
        cursor.at += 1
        return self._symbol(token)

    def _symbol(self, name: str) -> sympy.Symbol:
        found = self._symbols.get(name)
        if found is None:
            found = self._symbols[name] = symbol(name)
        return found

    def _call(self, cursor: Cursor, name: str) -> Operand:
        at = cursor.at
        function = CALLS.get(name)
        if function is None:
            cursor.fail_word(CALLS, "a function of expressions")
        cursor.at += 2
        args: list[Operand] = []
        while not cursor.accept(")"):
            if args:
                cursor.expect(",")
            args.append(self._expr(cursor))
        counts = getattr(function, "nargs", None)
        few = not args or (isinstance(counts, sympy.Set) and len(args) not in counts)
        if few or (function is sympy.Abs and len(args) != 1):
            cursor.fail(
                f"'{name}' does not take {len(args)} arguments", errors.ExprTextError, at=at
            )
        return _build(cursor, at, function, args)

    def _complex(self, cursor: Cursor) -> complex:
        cursor.at += 2
        real = self._float(cursor)
        cursor.expect(",")
        imaginary = self._float(cursor)
        cursor.expect(")")
        return complex(real, imaginary)

    def _float(self, cursor: Cursor) -> float:
        start = cursor.at
        value = self._expr(cursor, Level.PRODUCT)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            cursor.fail("expected a number", errors.ExprTextError, at=start)
        try:
            return float(value)
        except OverflowError:
            cursor.fail("this number is too large for a double", errors.NumberTextError, at=start)


def _number(cursor: Cursor) -> int | float:
    token = cursor.take()
    if token.isdecimal():
        if len(token) > MAX_DIGITS:
            reason = f"an integer has more than {MAX_DIGITS} digits"
            hint = "write it in hexadecimal: 0x..."
            cursor.fail(reason, errors.NumberTextError, at=cursor.at - 1, hint=hint)
        return int(token)
    if token[:2] in ("0x", "0X"):
        return int(token, 16)
    value = float(token)
    if math.isinf(value):
        cursor.fail(
            "this number is too large for a double", errors.NumberTextError, at=cursor.at - 1
        )
    return value


#: Exceptions that sympy raises for something that it cannot evaluate. Its constructors promise
#: nothing, and a text may contain anything.
_SYMPY_ERRORS: Final = (
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    RecursionError,
)


def _is_truth(value: object) -> bool:
    return isinstance(value, (bool, Boolean)) and not isinstance(value, sympy.Symbol)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, sympy.Expr)) and not _is_truth(value)


def _build(cursor: Cursor, at: int, function: Operand, args: list[Operand]) -> Operand:
    """Check operands and build an evaluated expression of them."""
    _check(cursor, at, function, args)
    return _computed(cursor, at, function, args)


def _computed(cursor: Cursor, at: int, function: Operand, args: list[Operand]) -> Operand:
    """Call a function of sympy or ours, and report what cannot be evaluated."""
    try:
        return function(*args)
    except ir.UnsupportedExprError as error:
        cursor.fail(error.message, errors.ExprTextError, at=at, hint=error.hint)
    except _SYMPY_ERRORS as error:
        reason = str(error).partition("\n")[0][:120] or type(error).__name__
        cursor.fail(f"this expression cannot be evaluated: {reason}", errors.ExprTextError, at=at)


def _check(cursor: Cursor, at: int, function: Operand, args: list[Operand]) -> None:
    """Check that booleans are operands of ``&&``, ``||``, ``!``, ``==``, ``!=`` and Where only."""
    if function in (sympy.And, sympy.Or, sympy.Not):
        numbers = False
    elif function in (sympy.Eq, sympy.Ne):
        numbers = not all(_is_truth(a) or isinstance(a, sympy.Symbol) for a in args)
    else:
        numbers = True
    for position, arg in enumerate(args):
        want_number = numbers and not (position == 0 and function is CALLS["Where"])
        if want_number and not _is_number(arg):
            cursor.fail("expected a number, but found a boolean", errors.ExprTextError, at=at)
        if not want_number and not (_is_truth(arg) or isinstance(arg, sympy.Symbol)):
            cursor.fail("expected a boolean, but found a number", errors.ExprTextError, at=at)


def _signed(cursor: Cursor, at: int, factors: list[Operand], *, negative: bool) -> Operand:
    """Return the product of the factors, negated if ``negative``."""
    if len(factors) == 1:
        only = factors[0]
        if not negative:
            return only
        if isinstance(only, (int, float)) and not isinstance(only, bool):
            return -only
    return _build(cursor, at, sympy.Mul, [-1, *factors] if negative else factors)


def _power(cursor: Cursor, at: int, base: Operand, exponent: Operand) -> Operand:
    if isinstance(exponent, (int, sympy.Integer)):
        if exponent < 0:
            cursor.fail("an exponent must not be negative", errors.ExprTextError, at=at)
        bits = int(base).bit_length() if isinstance(base, (int, sympy.Integer)) else 0
        if bits * int(exponent) > _POWER_BITS:
            cursor.fail("this power is too large", errors.NumberTextError, at=at)
    return _build(cursor, at, sympy.Pow, [base, exponent])
