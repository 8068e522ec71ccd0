"""Symbolic expressions as typed C++. Integers are checked, so a result is exact or an error."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, assert_never

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean
from typing_extensions import override

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.writer import ORDER, TRANSCENDENTAL, spaced_product, spaced_sum
from wrapper_ir.lines import expr as vocabulary
from wrapper_ir.lines.expr import Scalar, UnsupportedExprError
from wrapper_ir.lines.expr_printer import (
    ExprPrinter,
    Form,
    Level,
    Piece,
    bracketed,
    call,
    infix,
    ordered_args,
    prefix,
)
from wrapper_ir.lines.kernels import ScalarType
from wrapper_ir.lines.program import SymbolKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# Typed expressions: C++ text with its type, and conversions between types.


class CType(enum.Enum):
    """The types of numbers in generated code; the values are their C++ spellings."""

    INT = "wir::Int"
    """A checked integer of 64 bits."""
    REAL = "double"
    BOOL = "bool"
    INT64 = "std::int64_t"
    INT32 = "std::int32_t"
    UINT64 = "std::uint64_t"
    FLOAT = "float"

    @property
    def member(self) -> str:
        """The member of ``wir::Slot`` that holds such a number."""
        return "real" if self is CType.REAL else "integer"

    @property
    def kind(self) -> str:
        """The constant of ``wir::Kind`` and of ``wir::ProbeOperand::Kind``."""
        return {CType.REAL: "kReal", CType.BOOL: "kBool"}.get(self, "kInteger")


@dataclass(frozen=True, slots=True)
class CExpr:
    """An expression in C++ and its type."""

    text: str
    type: CType
    is_literal: bool = False
    """Whether it is a single literal, which C++ converts implicitly."""


def convert(expr: CExpr, type_: CType) -> CExpr:
    """Return the expression in another type; conversions that may lose information are checked."""
    if expr.type is type_:
        return expr
    return CExpr(_converted(expr, type_), type_, expr.is_literal)


def _converted(expr: CExpr, type_: CType) -> str:
    text = expr.text
    match type_:
        case CType.INT | CType.INT64:
            if expr.type is CType.REAL:
                return f"wir::to_integer({text})"
            return text if expr.type is CType.INT or expr.is_literal else f"wir::Int({text})"
        case CType.REAL:
            return text if expr.is_literal else f"wir::to_real({text})"
        case CType.BOOL:
            return text if expr.is_literal else f"wir::Int({text}) != 0"
        case CType.INT32 | CType.UINT64:
            return text if expr.is_literal else f"wir::narrow<{type_.value}>({text})"
        case CType.FLOAT:
            return f"static_cast<float>({_converted(expr, CType.REAL)})"
    assert_never(type_)


def symbol_type(kind: SymbolKind) -> CType:
    """Return the type of a symbol's variable."""
    match kind:
        case SymbolKind.INT | SymbolKind.NONE:  # the variable of the latter is never read
            return CType.INT
        case SymbolKind.FLOAT:
            return CType.REAL
        case SymbolKind.BOOL:
            return CType.BOOL
    assert_never(kind)


def slot_value(position: int, type_: CType) -> str:
    """Return the number in a slot of ``inputs``."""
    value = f"inputs[{position}].{type_.member}"
    return f"{value} != 0" if type_ is CType.BOOL else value


def parameter_type(type_: ScalarType) -> CType:
    """Return the type of a kernel's scalar parameter."""
    return {
        ScalarType.INT64: CType.INT64,
        ScalarType.INT32: CType.INT32,
        ScalarType.UINT64: CType.UINT64,
        ScalarType.FLOAT64: CType.REAL,
        ScalarType.FLOAT32: CType.FLOAT,
        ScalarType.BOOL: CType.BOOL,
    }[type_]


#: Functions that compute with real numbers, whatever their arguments are.
REAL_FUNCTIONS: Final = (
    *(vocabulary.ToFloat, vocabulary.TrueDiv, vocabulary.FloatPow),
    *TRANSCENDENTAL,
)
_OPEN: Final = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Max, sympy.Min, sympy.Abs)
_INT64: Final = 2**63


def _extremum(name: str) -> Form:
    """Print ``wir::max<wir::Int>(a, b, c)``."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        assert isinstance(printer, CppExprs)
        type_ = printer.type_of(expr)
        args = ", ".join(printer.as_type(arg, type_) for arg in ordered_args(expr))
        return Piece(f"wir::{name}<{type_.value}>({args})")

    return form


def _where(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    """Print ``(condition ? a : b)``: only the chosen side is computed."""
    assert isinstance(printer, CppExprs)
    condition, a, b = expr.args
    type_ = printer.type_of(expr)
    sides = (f"{type_.value}({printer.print(side)})" for side in (a, b))
    return Piece(f"({printer.print(condition, Level.OR)} ? {' : '.join(sides)})")


def _unary(name: str, *, real: bool) -> Form:
    """Print ``wir::name(a)``, with the argument as a double if required."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        assert isinstance(printer, CppExprs)
        (arg,) = expr.args
        text = printer.as_type(arg, CType.REAL) if real else printer.as_own(arg)
        return Piece(f"wir::{name}({text})")

    return form


def _binary(name: str, type_: CType | None) -> Form:
    """Print ``wir::name(a, b)``, with arguments of the given type or of their own types."""

    def form(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
        assert isinstance(printer, CppExprs)
        args = (
            printer.as_own(arg) if type_ is None else printer.as_type(arg, type_)
            for arg in expr.args
        )
        return Piece(f"wir::{name}({', '.join(args)})")

    return form


def _power(printer: ExprPrinter, expr: sympy.Basic) -> Piece:
    assert isinstance(printer, CppExprs)
    base, exponent = expr.args
    if printer.type_of(exponent) is CType.REAL:
        return _binary("float_pow", CType.REAL)(printer, expr)
    return Piece(f"wir::pow({printer.as_own(base)}, {printer.print(exponent)})")


class CppExprs(ExprPrinter):
    """Prints expressions as C++, given the variable and the kind of each symbol."""

    target = "C++"

    forms: ClassVar[Mapping[type[sympy.Basic], Form]] = {
        sympy.Add: spaced_sum,
        sympy.Mul: spaced_product,
        sympy.Pow: _power,
        sympy.Max: _extremum("max"),
        sympy.Min: _extremum("min"),
        sympy.Abs: _unary("abs", real=False),
        # In C++, == binds looser than <, and both bind tighter than Python's `not`.
        sympy.Eq: bracketed(infix("==", Level.COMPARE)),
        sympy.Ne: bracketed(infix("!=", Level.COMPARE)),
        **ORDER,
        sympy.And: bracketed(infix("&&", Level.AND)),
        sympy.Or: bracketed(infix("||", Level.OR)),
        sympy.Not: prefix("!", Level.ATOM),
        vocabulary.FloorDiv: call("wir::floor_div"),
        vocabulary.CeilDiv: call("wir::ceil_div"),
        vocabulary.Mod: call("wir::mod"),
        vocabulary.Where: _where,
        vocabulary.Truncate: _unary("truncate", real=False),
        vocabulary.Floor: _unary("floor", real=False),
        vocabulary.Ceil: _unary("ceil", real=False),
        vocabulary.Round: _unary("round", real=False),
        vocabulary.BitAnd: call("wir::bit_and"),
        vocabulary.BitOr: call("wir::bit_or"),
        vocabulary.BitXor: call("wir::bit_xor"),
        vocabulary.ShiftLeft: call("wir::shift_left"),
        vocabulary.ShiftRight: call("wir::shift_right"),
        vocabulary.ToFloat: _unary("to_real", real=False),
        vocabulary.TrueDiv: _binary("true_div", None),
        vocabulary.FloatPow: _binary("float_pow", CType.REAL),
        **{function: _unary(function.__name__.lower(), real=True) for function in TRANSCENDENTAL},
    }

    def __init__(self, names: Callable[[str], str], kinds: Callable[[str], SymbolKind]) -> None:
        super().__init__()
        self._names = names
        self._kinds = kinds
        self._types: dict[sympy.Basic, CType] = {}

    # Types.

    def expr(self, value: Scalar) -> CExpr:
        """Return a number or expression with its type."""
        if isinstance(value, sympy.Symbol):
            return CExpr(self._names(value.name), self.type_of(value))
        is_literal = not isinstance(value, sympy.Basic) or bool(value.is_Number)
        return CExpr(self._outermost(self.print(value)), self.type_of(value), is_literal)

    @staticmethod
    def _outermost(text: str) -> str:
        """Return the text without brackets around all of it."""
        if not (text.startswith("(") and text.endswith(")")):
            return text
        depth = 0
        for position, char in enumerate(text):
            depth += (char == "(") - (char == ")")
            if depth == 0 and position < len(text) - 1:
                return text
        return text[1:-1]

    def type_of(self, value: Scalar) -> CType:
        """Return the type that a value has in C++."""
        if isinstance(value, bool):
            return CType.BOOL
        if isinstance(value, int):
            return CType.INT
        if isinstance(value, float):
            return CType.REAL
        if not isinstance(value, sympy.Basic):
            raise UnsupportedExprError(expr=value, what="a complex number")
        found = self._types.get(value)
        if found is None:
            found = self._types[value] = self._type_of(value)
        return found

    def _type_of(self, expr: sympy.Basic) -> CType:
        if isinstance(expr, sympy.Symbol):
            return symbol_type(self._kinds(expr.name))
        if isinstance(expr, (Relational, Boolean)):
            return CType.BOOL
        if isinstance(expr, (sympy.Float, *REAL_FUNCTIONS)):
            return CType.REAL
        if isinstance(expr, vocabulary.Where):
            sides = {self.type_of(side) for side in expr.args[1:]}
        elif isinstance(expr, _OPEN):
            sides = {self.type_of(arg) for arg in expr.args}
        else:
            return CType.INT
        return CType.REAL if CType.REAL in sides else CType.INT

    def as_own(self, value: sympy.Basic) -> str:
        """Print an argument as a variable of its type: a literal becomes an ``Int`` or a double."""
        text = self.print(value)
        return f"wir::Int({text})" if isinstance(value, sympy.Integer) else text

    def as_type(self, value: sympy.Basic, type_: CType) -> str:
        """Print an argument of a function that takes a single type."""
        text, own = self.print(value), self.type_of(value)
        if own is type_ or (type_ is CType.INT and own is CType.BOOL):
            return text
        return f"{text}.0" if isinstance(value, sympy.Integer) else f"wir::to_real({text})"

    # Leaves.

    @override
    def integer(self, value: int) -> Piece:
        if not -_INT64 <= value < _INT64:
            raise UnsupportedExprError(expr=value, what="a number of more than 64 bits")
        return Piece(literals.integer(value), Level.ATOM if value >= 0 else Level.UNARY)

    @override
    def real(self, value: float) -> Piece:
        text = literals.real(value)
        return Piece(text, Level.UNARY if text.startswith("-") else Level.ATOM)

    @override
    def boolean(self, value: bool) -> Piece:
        return Piece("true" if value else "false")

    @override
    def symbol(self, name: str, *, is_real: bool) -> Piece:
        text = self._names(name)
        if symbol_type(self._kinds(name)) is CType.BOOL:
            return Piece(f"wir::Int({text})")  # inside expressions it counts as a number
        return Piece(text)
