"""The functions of expressions that sympy lacks, or folds otherwise than a program may.

Convention: a function folds what is known, and nothing else. It is integer valued unless it derives
from :class:`_Real`. Whoever needs one imports it from :mod:`wrapper_ir.lines.expr`, which has the
whole vocabulary.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import sympy
from sympy.logic.boolalg import Boolean


class _Function(sympy.Function):  # type: ignore[misc]
    """Base of our own functions: integer valued unless said otherwise."""

    is_real: ClassVar[bool] = True

    def _eval_is_integer(self) -> bool | None:
        return True


def _ints(*args: sympy.Basic) -> bool:
    return all(isinstance(a, sympy.Integer) for a in args)


class FloorDiv(_Function):
    """``a // b``, rounding towards minus infinity (Python's rule)."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers, division by one and of zero."""
        if b == 1:
            return a
        if _ints(a, b) and b != 0:
            return sympy.Integer(int(a) // int(b))
        if a == 0 and b != 0 and isinstance(b, sympy.Integer):
            return sympy.S.Zero
        return None


class CeilDiv(_Function):
    """``ceil(a / b)`` over the integers."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers and division by one."""
        if b == 1:
            return a
        if _ints(a, b) and b != 0:
            return sympy.Integer(-(-int(a) // int(b)))
        return None


class Mod(_Function):
    """``a % b`` with the sign of ``b`` (Python's rule)."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers and the modulus of one."""
        if b == 1:
            return sympy.S.Zero
        if _ints(a, b) and b != 0:
            return sympy.Integer(int(a) % int(b))
        return None


class Where(_Function):
    """``a if condition else b``."""

    nargs = (3,)

    @classmethod
    def eval(cls, condition: Boolean, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds a known condition and equal branches."""
        if condition == sympy.true:
            return a
        if condition == sympy.false:
            return b
        return a if a == b else None

    def _eval_is_integer(self) -> bool | None:
        a, b = self.args[1].is_integer, self.args[2].is_integer
        return True if a and b else None


class Truncate(_Function):
    """A real rounded towards zero, as an integer."""

    nargs = (1,)


class Floor(_Function):
    """A real rounded down, as an integer."""

    nargs = (1,)


class Ceil(_Function):
    """A real rounded up, as an integer."""

    nargs = (1,)


class Round(_Function):
    """A real rounded half to even, as an integer."""

    nargs = (1,)


class BitAnd(_Function):
    """``a & b``."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers."""
        return sympy.Integer(int(a) & int(b)) if _ints(a, b) else None


class BitOr(_Function):
    """``a | b``."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers."""
        return sympy.Integer(int(a) | int(b)) if _ints(a, b) else None


class BitXor(_Function):
    """``a ^ b``."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers."""
        return sympy.Integer(int(a) ^ int(b)) if _ints(a, b) else None


class ShiftLeft(_Function):
    """``a << b``."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers, where the shift is one that a machine could do."""
        return sympy.Integer(int(a) << int(b)) if _ints(a, b) and 0 <= b < 64 else None


class ShiftRight(_Function):
    """``a >> b`` (arithmetic)."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Folds integers, where the shift is one that a machine could do."""
        return sympy.Integer(int(a) >> int(b)) if _ints(a, b) and 0 <= b < 64 else None


class _Real(_Function):
    """Base of our real-valued functions."""

    def _eval_is_integer(self) -> bool | None:
        return None


class ToFloat(_Real):
    """An integer as a double."""

    nargs = (1,)


class TrueDiv(_Real):
    """``a / b`` in double precision, correctly rounded for integers (Python's rule)."""

    nargs = (2,)


class FloatPow(_Real):
    """``a ** b`` in double precision."""

    nargs = (2,)


class Sqrt(_Real):
    """Square root in double precision."""

    nargs = (1,)


class Exp(_Real):
    """Natural exponential in double precision."""

    nargs = (1,)


class Log(_Real):
    """Natural logarithm in double precision."""

    nargs = (1,)


class Log2(_Real):
    """Binary logarithm in double precision."""

    nargs = (1,)


class Sin(_Real):
    """Sine in double precision."""

    nargs = (1,)


class Cos(_Real):
    """Cosine in double precision."""

    nargs = (1,)


class Tanh(_Real):
    """Hyperbolic tangent in double precision."""

    nargs = (1,)


FUNCTIONS: Final[dict[str, type[sympy.Function]]] = {
    function.__name__: function
    for function in (
        *(FloorDiv, CeilDiv, Mod, Where, Truncate, Floor, Ceil, Round),
        *(BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight),
        *(ToFloat, TrueDiv, FloatPow, Sqrt, Exp, Log, Log2, Sin, Cos, Tanh),
    )
}
"""Every function by the name that the text form calls it."""

#: Functions of Python that are what a part of an expression computes, given all its arguments.
PYTHON_FUNCTIONS: Final[Mapping[type[sympy.Basic], Callable[..., Any]]] = {
    sympy.Pow: operator.pow,
    sympy.Abs: abs,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    FloorDiv: operator.floordiv,
    Mod: operator.mod,
    Truncate: math.trunc,
    Floor: math.floor,
    Ceil: math.ceil,
    Round: round,
    BitAnd: operator.and_,
    BitOr: operator.or_,
    BitXor: operator.xor,
    ShiftLeft: operator.lshift,
    ShiftRight: operator.rshift,
    TrueDiv: operator.truediv,
}
