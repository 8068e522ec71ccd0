"""Lowering of symbolic expressions to calls of Python's and torch's functions, exact as in Python.

The functions accept numbers and torch's symbolic numbers, so that the same tables serve to create
nodes and to compute values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import sympy
import torch
from sympy.logic.boolalg import BooleanAtom

from wrapper_ir.emitters.fx import numbers
from wrapper_ir.emitters.writer import split_sign
from wrapper_ir.lines import expr as vocabulary
from wrapper_ir.lines.expr import PYTHON_FUNCTIONS, Scalar, UnsupportedExprError
from wrapper_ir.lines.expr_printer import ordered_args

Apply = Callable[..., Any]
"""``apply(function, *args)`` calls a function, or creates a node that calls it."""


#: Operators that are one function of all their arguments, in order.
_PLAIN: Final[Mapping[type[sympy.Basic], Callable[..., Any]]] = {
    **PYTHON_FUNCTIONS,
    sympy.Not: torch.sym_not,
    vocabulary.Where: numbers.where,
    vocabulary.ToFloat: torch.sym_float,
    vocabulary.Sqrt: numbers.sqrt,
    vocabulary.Exp: numbers.exp,
    vocabulary.Log: numbers.log,
    vocabulary.Log2: numbers.log2,
    vocabulary.Sin: numbers.sin,
    vocabulary.Cos: numbers.cos,
    vocabulary.Tanh: numbers.tanh,
}

#: Operators that fold a binary function over their arguments, from left to right.
_FOLDED: Final[Mapping[type[sympy.Basic], Callable[..., Any]]] = {
    sympy.Mul: operator.mul,
    sympy.Max: torch.sym_max,
    sympy.Min: torch.sym_min,
    sympy.And: operator.and_,
    sympy.Or: operator.or_,
}


def lower(value: Scalar, symbols: Callable[[str], Any], apply: Apply) -> Any:
    """Return the value of an expression, or the node that computes it.

    ``apply`` applies a function, and may return one result for equal calls.

    Raises:
        UnsupportedExprError: The expression uses an operator that FX cannot express.
    """
    if not isinstance(value, sympy.Basic) or value.is_Atom:
        return _atom(value, symbols)
    args = [lower(arg, symbols, apply) for arg in ordered_args(value)]
    kind = type(value)
    if kind in _PLAIN:
        return apply(_PLAIN[kind], *args)
    if kind is sympy.Add:
        return _sum(value, symbols, apply)
    if kind is vocabulary.CeilDiv:
        negated = apply(operator.neg, args[0])
        return apply(operator.neg, apply(operator.floordiv, negated, args[1]))
    if kind is vocabulary.FloatPow:
        return apply(operator.pow, *(apply(torch.sym_float, arg) for arg in args))
    if kind in _FOLDED:
        total = args[0]
        for arg in args[1:]:
            total = apply(_FOLDED[kind], total, arg)
        return total
    raise UnsupportedExprError(
        expr=value, what=f"'{kind.__name__}'", hint="FX graphs cannot express it"
    )


def _atom(value: Scalar, symbols: Callable[[str], Any]) -> Any:
    """Return a Python number, or the value of a symbol."""
    match value:
        case sympy.Integer():
            return int(value)
        case sympy.Float():
            return float(value)
        case BooleanAtom():
            return bool(value)
        case sympy.Symbol():
            return symbols(value.name)
        case _:
            return value


def _sum(value: sympy.Basic, symbols: Callable[[str], Any], apply: Apply) -> Any:
    """Lower a sum from left to right; negative terms are subtracted."""
    first, *rest = ordered_args(value)
    total = lower(first, symbols, apply)
    for term in rest:
        negative, magnitude = split_sign(term)
        function = operator.sub if negative else operator.add
        total = apply(function, total, lower(magnitude, symbols, apply))
    return total
