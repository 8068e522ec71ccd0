"""Conversion of torch's symbolic expressions to the vocabulary of ``wrapper_ir.lines.expr``.

Torch has sympy functions of its own, some of which are the same operation under different
assumptions (``CleanDiv`` divides without remainder, ``Identity`` stops simplification). Only this
module knows them. They are identified by name, so a torch release may lack any of them.
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

REAL_FUNCTIONS: Final[Mapping[str, Make]] = {
    function.__name__.lower(): function
    for function in (ours.Exp, ours.Log, ours.Log2, ours.Sqrt, ours.Sin, ours.Cos, ours.Tanh)
}
"""Functions of a real number, by their names in ``math`` and in torch."""

#: Torch's names of floating-point symbols: those of inputs, and those read from tensors.
_FLOAT_NAME: Final = re.compile(r"zu?f\d+")

_IS_DENSE: Final = "IsNonOverlappingAndDenseIndicator"

_INFINITE: Final = (sympy.oo, -sympy.oo)
_LARGEST: Final = sympy.Float(sys.float_info.max)


#: Torch's functions, by class name -> the equivalent in our vocabulary.
_FUNCTIONS: Final[Mapping[str, Make]] = {
    # These have the same names there.
    **{n: getattr(ours, n) for n in ("FloorDiv", "CeilDiv", "Mod", "Where", "FloatPow", "ToFloat")},
    **{name: getattr(sympy, name) for name in ("Min", "Max", "Abs")},
    "CleanDiv": ours.FloorDiv,
    "ModularIndexing": lambda value, divisor, modulus: ours.Mod(
        ours.FloorDiv(value, divisor), modulus
    ),
    "PythonMod": ours.Mod,
    "LShift": ours.ShiftLeft,
    "RShift": ours.ShiftRight,
    "PowByNatural": sympy.Pow,
    **dict.fromkeys(("FloatTrueDiv", "IntTrueDiv"), ours.TrueDiv),
    "TruncToFloat": lambda value: ours.ToFloat(ours.Truncate(value)),
    "TruncToInt": ours.Truncate,
    **dict.fromkeys(("FloorToInt", "floor"), ours.Floor),
    **dict.fromkeys(("CeilToInt", "ceiling"), ours.Ceil),
    "RoundToInt": ours.Round,
    "Identity": lambda value: value,
    **{f"BitwiseFn_bitwise_{n.lower()}": getattr(ours, f"Bit{n}") for n in ("And", "Or", "Xor")},
    **{f"OpaqueUnaryFn_{name}": make for name, make in REAL_FUNCTIONS.items()},
}


def to_dim(value: Any) -> Dim:
    """Convert torch's size, stride or offset; ``UnsupportedExprError`` if the vocabulary cannot."""
    return int(value) if isinstance(value, (int, sympy.Integer)) else ours.dim(_unwrap(value))


def to_scalar(value: Any) -> Scalar:
    """Convert torch's number or condition; ``UnsupportedExprError`` if the vocabulary cannot."""
    is_plain = isinstance(value, (int, float, complex))
    return value if is_plain else ours.scalar(_unwrap(value))


def bound_of(value: Any) -> int | None:
    """Convert a bound of torch's range; None if it is infinite or otherwise not an integer."""
    is_known = isinstance(value, int) or getattr(value, "is_Integer", False)
    return int(value) if is_known else None


def is_about_layout(guard: Any) -> bool:
    """Return True if torch's guard asks if a tensor is dense, or decided a convolution's layout."""
    location = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    file, function = getattr(location, "filename", ""), getattr(location, "name", "")
    if str(file).endswith("_subclasses/fake_impls.py") and function == "conv":
        return True
    return any(type(part).__name__ == _IS_DENSE for part in sympy.preorder_traversal(guard.expr))


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
            # Python's // of a sum, which sympy splits into fractions.
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
    """Return the symbol of the same name without torch's assumption that sizes are not negative.

    Floats are also recognized by name, because torch assumes nothing about one read from a tensor.
    """
    is_float = expr.is_integer is not True and expr.is_real
    if is_float or _FLOAT_NAME.fullmatch(expr.name):
        return ours.real_symbol(expr.name)
    return ours.symbol(expr.name)


def _beside_infinity(expr: Relational) -> sympy.Basic:
    """Convert a comparison with infinity to one with the largest double.

    Sympy takes reals for finite, but doubles may be infinite. A NaN compares false with both
    bounds, so ``Ne``, which holds for it, cannot be an ordered comparison.
    """
    value, is_above = _from_torch(expr.lhs), expr.rhs is sympy.oo
    is_infinite = value > _LARGEST if is_above else value < -_LARGEST
    if isinstance(expr, (sympy.Eq, sympy.Ge if is_above else sympy.Le)):
        return is_infinite
    if isinstance(expr, sympy.Ne):
        return sympy.Ne(ours.Where(is_infinite, 1, 0), 1)
    if isinstance(expr, sympy.Lt if is_above else sympy.Gt):
        return value <= _LARGEST if is_above else value >= -_LARGEST
    return expr.func(value, expr.rhs)


def _choice(expr: sympy.Piecewise) -> sympy.Basic:
    """Convert a ``Piecewise``, torch's way of turning conditions into numbers."""
    *pieces, (last, condition) = expr.args
    if condition is not sympy.true:
        raise UnsupportedExprError(expr=expr, what="a choice without a default value")
    chosen = _from_torch(last)
    for value, condition in reversed(pieces):
        chosen = ours.Where(_from_torch(condition), _from_torch(value), chosen)
    return chosen


def _product(expr: sympy.Mul, args: list[sympy.Basic]) -> sympy.Basic:
    """Convert a product. A rational factor, which torch uses to divide, becomes a division."""
    rationals = [a for a in args if isinstance(a, sympy.Rational) and a.q != 1]
    if not rationals:
        return sympy.Mul(*args)
    factor = sympy.Mul(*rationals)
    rest = sympy.Mul(*(a for a in args if a not in rationals))
    make: Make = ours.FloorDiv if expr.is_integer else ours.TrueDiv
    return make(sympy.Mul(factor.p, rest), sympy.Integer(factor.q))
