"""The values of expressions, worked out with Python's numbers.

Arguments of sums and products are taken in the order that all targets share, so that rounding is
the same.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy
from sympy.logic.boolalg import BooleanAtom

from wrapper_ir.interpreter.errors import SymbolValueError
from wrapper_ir.lines import expr as vocabulary
from wrapper_ir.lines.expr_printer import ordered_args

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Number", "evaluate"]

Number: TypeAlias = bool | int | float | complex


def evaluate(value: object, symbols: Mapping[str, Number]) -> Number:
    """The value of a dim or scalar.

    Args:
        value: A Python number or an expression.
        symbols: The values of symbols.

    Raises:
        SymbolValueError: A symbol has no value, or the value is not defined.
    """
    try:
        return _value(value, symbols)
    except (ArithmeticError, ValueError) as error:
        raise SymbolValueError(what=f"'{value}' cannot be computed: {error}") from error


def _value(value: object, symbols: Mapping[str, Number]) -> Number:
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, sympy.Float):
        return float(value)
    if isinstance(value, BooleanAtom):
        return bool(value)
    if isinstance(value, sympy.Symbol):
        if value.name not in symbols:
            raise SymbolValueError(what=f"symbol {value.name} has no value here")
        return symbols[value.name]
    if isinstance(value, vocabulary.Where):
        condition, then, other = value.args
        return _value(then if _value(condition, symbols) else other, symbols)
    if isinstance(value, (sympy.And, sympy.Or)):
        test = all if isinstance(value, sympy.And) else any
        return test(bool(_value(arg, symbols)) for arg in ordered_args(value))
    function = _FUNCTIONS.get(type(value))
    if function is None or not isinstance(value, sympy.Basic):
        raise SymbolValueError(what=f"'{value}' is outside the vocabulary")
    args = ordered_args(value) if type(value) in _COMMUTATIVE else value.args
    found: Number = function(*(_value(arg, symbols) for arg in args))
    return found


def _sum(*args: Any) -> Any:  # noqa: ANN401 - numbers of any type
    return reduce(operator.add, args)


def _product(*args: Any) -> Any:  # noqa: ANN401 - numbers of any type
    return reduce(operator.mul, args)


_COMMUTATIVE: Final = (sympy.Add, sympy.Mul)

_FUNCTIONS: Final[Mapping[type[sympy.Basic], Callable[..., Any]]] = {
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Pow: operator.pow,
    sympy.Max: max,
    sympy.Min: min,
    sympy.Abs: abs,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Not: operator.not_,
    vocabulary.FloorDiv: operator.floordiv,
    vocabulary.CeilDiv: lambda a, b: -(-a // b),
    vocabulary.Mod: operator.mod,
    vocabulary.Truncate: math.trunc,
    vocabulary.Floor: math.floor,
    vocabulary.Ceil: math.ceil,
    vocabulary.Round: round,
    vocabulary.BitAnd: operator.and_,
    vocabulary.BitOr: operator.or_,
    vocabulary.BitXor: operator.xor,
    vocabulary.ShiftLeft: operator.lshift,
    vocabulary.ShiftRight: operator.rshift,
    vocabulary.ToFloat: float,
    vocabulary.TrueDiv: operator.truediv,
    vocabulary.FloatPow: lambda a, b: float(a) ** float(b),
    vocabulary.Sqrt: math.sqrt,
    vocabulary.Exp: math.exp,
    vocabulary.Log: math.log,
    vocabulary.Log2: math.log2,
    vocabulary.Sin: math.sin,
    vocabulary.Cos: math.cos,
    vocabulary.Tanh: math.tanh,
}
