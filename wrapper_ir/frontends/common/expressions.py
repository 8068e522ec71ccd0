"""Torch's symbolic expressions in the vocabulary of ``wrapper_ir.lines.expr``.

Torch has sympy functions of its own, several of them for the same operation with different
assumptions (``CleanDiv`` divides without remainder, ``Identity`` stops simplification). This is
the one place that knows them. They are told apart by name, so that a release that lacks one of
them is no problem.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import sympy
import torch
from sympy.core.relational import Relational

from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.expr import Dim, Scalar, UnsupportedExprError

Make = Callable[..., sympy.Basic]

#: How torch names its floating-point symbols: of inputs, and read from tensors.
_FLOAT_NAME: Final = re.compile(r"zu?f\d+")

_INFINITE: Final = (sympy.oo, -sympy.oo)
_LARGEST: Final = sympy.Float(sys.float_info.max)


def _modular_indexing(value: Any, divisor: Any, modulus: Any) -> sympy.Basic:
    return ours.Mod(ours.FloorDiv(value, divisor), modulus)


def _trunc_to_float(value: Any) -> sympy.Basic:
    return ours.ToFloat(ours.Truncate(value))


#: Torch's functions by class name -> what makes the same value in our vocabulary.
_FUNCTIONS: Final[Mapping[str, Make]] = {
    "FloorDiv": ours.FloorDiv,
    "CleanDiv": ours.FloorDiv,
    "CeilDiv": ours.CeilDiv,
    "ModularIndexing": _modular_indexing,
    "PythonMod": ours.Mod,
    "Mod": ours.Mod,
    "Where": ours.Where,
    "Min": sympy.Min,
    "Max": sympy.Max,
    "LShift": ours.ShiftLeft,
    "RShift": ours.ShiftRight,
    "PowByNatural": sympy.Pow,
    "FloatPow": ours.FloatPow,
    "FloatTrueDiv": ours.TrueDiv,
    "IntTrueDiv": ours.TrueDiv,
    "ToFloat": ours.ToFloat,
    "TruncToFloat": _trunc_to_float,
    "TruncToInt": ours.Truncate,
    "FloorToInt": ours.Floor,
    "CeilToInt": ours.Ceil,
    "RoundToInt": ours.Round,
    "Identity": lambda value: value,
    "BitwiseFn_bitwise_and": ours.BitAnd,
    "BitwiseFn_bitwise_or": ours.BitOr,
    "BitwiseFn_bitwise_xor": ours.BitXor,
    "OpaqueUnaryFn_sqrt": ours.Sqrt,
    "OpaqueUnaryFn_exp": ours.Exp,
    "OpaqueUnaryFn_log": ours.Log,
    "OpaqueUnaryFn_log2": ours.Log2,
    "OpaqueUnaryFn_sin": ours.Sin,
    "OpaqueUnaryFn_cos": ours.Cos,
    "OpaqueUnaryFn_tanh": ours.Tanh,
    "floor": ours.Floor,
    "ceiling": ours.Ceil,
    "Abs": sympy.Abs,
}


def to_dim(value: Any) -> Dim:
    """Return a size, stride or offset of torch's as one of ours.

    Raises:
        UnsupportedExprError: It uses a function that the vocabulary lacks.
    """
    if isinstance(value, (int, sympy.Integer)):
        return int(value)
    return ours.dim(_unwrap(value))


def to_scalar(value: Any) -> Scalar:
    """Return a number or a condition of torch's as one of ours.

    Raises:
        UnsupportedExprError: It uses a function that the vocabulary lacks.
    """
    if isinstance(value, (bool, int, float, complex)):
        return value
    return ours.scalar(_unwrap(value))


def bound_of(value: Any) -> int | None:
    """Return a bound of a range of torch's; None where there is none, or none that is a number."""
    is_known = isinstance(value, int) or getattr(value, "is_Integer", False)
    return int(value) if is_known else None


def is_about_layout(guard: Any) -> bool:
    """Return whether a guard of torch's only decided a convolution's layout, which is asserted."""
    place = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    file, function = getattr(place, "filename", ""), getattr(place, "name", "")
    return str(file).endswith("_subclasses/fake_impls.py") and function == "conv"


def _unwrap(value: Any) -> Any:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        value = value.node.expr
    return _from_torch(value) if isinstance(value, sympy.Basic) else value


@lru_cache(maxsize=65536)
def _from_torch(expr: sympy.Basic) -> sympy.Basic:
    if isinstance(expr, sympy.Symbol):
        return _symbol(expr)
    if not expr.args:
        return expr
    if isinstance(expr, sympy.Piecewise):
        return _choice(expr)
    if isinstance(expr, Relational) and not set(expr.args).isdisjoint(_INFINITE):
        return _beside_infinity(expr if expr.rhs in _INFINITE else expr.reversed)
    if isinstance(expr, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(expr.args[0]))
        if numerator.is_integer and isinstance(denominator, sympy.Integer):
            # Python's // of a sum, which sympy takes apart into fractions.
            return ours.FloorDiv(_from_torch(sympy.expand(numerator)), denominator)
    args = [_from_torch(arg) for arg in expr.args]
    if isinstance(expr, sympy.Mul):
        return _product(expr, args)
    make = _FUNCTIONS.get(type(expr).__name__)
    if make is not None:
        return make(*args)
    if type(expr) in ours.VOCABULARY:
        return expr.func(*args)
    raise UnsupportedExprError(expr=expr, what=f"'{type(expr).__name__}'")


def _symbol(expr: sympy.Symbol) -> sympy.Symbol:
    """Return the symbol by that name, without torch's assumption that sizes are not negative.

    Floats are told by their names too: torch assumes nothing of one that is read from a tensor.
    """
    is_float = expr.is_integer is not True and expr.is_real
    if is_float or _FLOAT_NAME.fullmatch(expr.name):
        return ours.real_symbol(expr.name)
    return ours.symbol(expr.name)


def _beside_infinity(expr: Relational) -> sympy.Basic:
    """Compare with the largest double instead: sympy takes reals for finite, but doubles are not.

    A NaN is neither above nor below, so what holds for it too is no comparison.
    """
    value, is_above = _from_torch(expr.lhs), expr.rhs is sympy.oo
    is_there = value > _LARGEST if is_above else value < -_LARGEST
    match expr:
        case sympy.Eq():
            return is_there
        case sympy.Ne():
            return sympy.Ne(ours.Where(is_there, 1, 0), 1)
        case sympy.Ge() if is_above:
            return is_there
        case sympy.Le() if not is_above:
            return is_there
        case sympy.Lt() if is_above:
            return value <= _LARGEST
        case sympy.Gt() if not is_above:
            return value >= -_LARGEST
        case _:
            return expr.func(value, expr.rhs)


def _choice(expr: sympy.Piecewise) -> sympy.Basic:
    """Return the value of the first condition that holds; torch makes numbers of conditions so."""
    *pieces, (last, condition) = expr.args
    if condition is not sympy.true:
        raise UnsupportedExprError(expr=expr, what="a choice without a value for all other cases")
    chosen = _from_torch(last)
    for value, condition in reversed(pieces):
        chosen = ours.Where(_from_torch(condition), _from_torch(value), chosen)
    return chosen


def _product(expr: sympy.Mul, args: list[sympy.Basic]) -> sympy.Basic:
    """Return a product; a rational factor, which torch leaves where it divides, as a division."""
    rationals = [a for a in args if isinstance(a, sympy.Rational) and a.q != 1]
    if not rationals:
        return sympy.Mul(*args)
    factor = sympy.Mul(*rationals)
    rest = sympy.Mul(*(a for a in args if a not in rationals))
    numerator = sympy.Mul(factor.p, rest)
    if expr.is_integer:
        return ours.FloorDiv(numerator, sympy.Integer(factor.q))
    return ours.TrueDiv(numerator, sympy.Integer(factor.q))
