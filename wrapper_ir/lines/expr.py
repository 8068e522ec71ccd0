"""Symbolic integers and scalars: sympy restricted to a closed vocabulary.

Convention: :func:`dim` and :func:`scalar` *rebuild every expression that enters a program in our
vocabulary, with evaluation on*. There are two reasons. For sympy,
``Mul(2, s0 + 1, evaluate=False) != 2*s0 + 2``, so unevaluated input would break equality and the
round trip through text. And sympy's printers print unknown functions verbatim, so an open
vocabulary would lead to broken generated code. Here an unknown function raises
:class:`UnsupportedExprError`.

Symbols carry no sign assumptions: they decide whether ``Max(1, s)`` folds, but a range is a fact
about a program, not about an expression. Ranges and hints live in ``Program.symbols``.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean, BooleanAtom

from wrapper_ir.errors import WrapperIRError

__all__ = ["FUNCTIONS", "INT64_MAX", "VOCABULARY", "BitAnd", "BitOr", "BitXor", "Ceil", "CeilDiv"]
__all__ += ["Cos", "Dim", "Exp", "FloatPow", "Floor", "FloorDiv", "Log", "Log2", "Mod", "Round"]
__all__ += ["Scalar", "ShiftLeft", "ShiftRight", "Sin", "Sqrt", "Tanh", "ToFloat", "TrueDiv"]
__all__ += ["Truncate", "UnsupportedExprError", "Where", "ceil_divided", "dim", "dims"]
__all__ += ["free_symbols", "is_relation", "product", "quotient", "real_symbol", "scalar"]
__all__ += ["scalar_key", "substitute", "symbol"]

# Functions that sympy lacks, or folds in ways that a program must not.
#
# Convention: a function folds constants and nothing else. It is integer-valued unless it derives
# from :class:`_Real`.


if TYPE_CHECKING:

    class _Untyped:
        """Sympy's class, which has no types."""

        args: tuple[Any, ...]

        def __new__(cls, *args: object) -> Any:
            """Make an expression, which may be folded."""

        def __getattr__(self, name: str) -> Any:
            """Return anything else that sympy's expressions have."""

else:
    _Untyped = sympy.Function


class _Function(_Untyped):
    """Base of our own functions, integer-valued by default."""

    is_real: ClassVar[bool] = True

    def _eval_is_integer(self) -> bool | None:
        return True


class _OfIntegers(_Function):
    """Base of our functions of two integers, folded if both are constants."""

    fold: ClassVar[Callable[[int, int], int]]

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Fold constants, except a division by zero."""
        if not (isinstance(a, sympy.Integer) and isinstance(b, sympy.Integer)):
            return None
        try:
            return sympy.Integer(cls.fold(int(a), int(b)))
        except ZeroDivisionError:
            return None


class _Division(_OfIntegers):
    """Base of divisions of integers."""

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Fold constants and division by one."""
        return a if b == 1 else super().eval(a, b)


class FloorDiv(_Division):
    """``a // b``, rounded towards minus infinity as in Python."""

    fold: ClassVar[Callable[[int, int], int]] = operator.floordiv


def _ceiling(a: int, b: int) -> int:
    return -(-a // b)


class CeilDiv(_Division):
    """``ceil(a / b)`` over the integers."""

    fold: ClassVar[Callable[[int, int], int]] = _ceiling


class Mod(_OfIntegers):
    """``a % b`` with the sign of ``b`` as in Python."""

    fold: ClassVar[Callable[[int, int], int]] = operator.mod

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Fold constants and the modulus one."""
        return sympy.S.Zero if b == 1 else super().eval(a, b)


class Where(_Function):
    """``a if condition else b``."""

    nargs: ClassVar[tuple[int, ...]] = (3,)

    @classmethod
    def eval(cls, condition: Boolean, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Fold a constant condition and equal branches."""
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

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Floor(_Function):
    """A real rounded down, as an integer."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Ceil(_Function):
    """A real rounded up, as an integer."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Round(_Function):
    """A real rounded half to even, as an integer."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class BitAnd(_OfIntegers):
    """``a & b``."""

    fold: ClassVar[Callable[[int, int], int]] = operator.and_


class BitOr(_OfIntegers):
    """``a | b``."""

    fold: ClassVar[Callable[[int, int], int]] = operator.or_


class BitXor(_OfIntegers):
    """``a ^ b``."""

    fold: ClassVar[Callable[[int, int], int]] = operator.xor


class _Shift(_OfIntegers):
    """Base of shifts, folded for shift counts from 0 to 63."""

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        """Fold constants if the count is in range."""
        is_of_machine = isinstance(b, sympy.Integer) and 0 <= b < 64
        return super().eval(a, b) if is_of_machine else None


class ShiftLeft(_Shift):
    """``a << b``."""

    fold: ClassVar[Callable[[int, int], int]] = operator.lshift


class ShiftRight(_Shift):
    """``a >> b`` (arithmetic)."""

    fold: ClassVar[Callable[[int, int], int]] = operator.rshift


class _Real(_Function):
    """Base of our real-valued functions."""

    def _eval_is_integer(self) -> bool | None:
        return None


class ToFloat(_Real):
    """An integer as a double."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class TrueDiv(_Real):
    """``a / b`` in double precision, correctly rounded for integers as in Python."""

    nargs: ClassVar[tuple[int, ...]] = (2,)


class FloatPow(_Real):
    """``a ** b`` in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (2,)


class Sqrt(_Real):
    """Square root in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Exp(_Real):
    """Natural exponential in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Log(_Real):
    """Natural logarithm in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Log2(_Real):
    """Binary logarithm in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Sin(_Real):
    """Sine in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Cos(_Real):
    """Cosine in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


class Tanh(_Real):
    """Hyperbolic tangent in double precision."""

    nargs: ClassVar[tuple[int, ...]] = (1,)


FUNCTIONS: Final[dict[str, type[sympy.Function]]] = {
    function.__name__: function
    for function in (
        *(FloorDiv, CeilDiv, Mod, Where, Truncate, Floor, Ceil, Round),
        *(BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight),
        *(ToFloat, TrueDiv, FloatPow, Sqrt, Exp, Log, Log2, Sin, Cos, Tanh),
    )
}
"""Every function, by its name in the text form."""

#: Python functions that compute a node of an expression from all its arguments.
PYTHON_FUNCTIONS: Final[Mapping[type[sympy.Basic], Callable[..., Any]]] = {
    sympy.Pow: operator.pow,
    sympy.Abs: abs,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    **{cls: cls.fold for cls in (FloorDiv, Mod, BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight)},
    Truncate: math.trunc,
    Floor: math.floor,
    Ceil: math.ceil,
    Round: round,
    TrueDiv: operator.truediv,
}


Dim: TypeAlias = int | sympy.Expr
"""A size, stride, offset or count: an ``int`` or an integer-valued expression."""

Scalar: TypeAlias = bool | int | float | complex | sympy.Basic
"""A number that is passed to a call or returned by a program."""

_UNKNOWN: Final = "something that cannot be evaluated"

INT64_MAX: Final = 2**63 - 1
"""The largest size, offset or number of bytes."""


class UnsupportedExprError(WrapperIRError):
    """An expression contains a function or an atom outside the closed vocabulary."""

    code = "WIR0101"
    template = "the expression '{expr}' uses {what}, which is not in wrapper_ir's vocabulary"


#: Classes that are integer-valued for integer arguments, even if sympy cannot tell.
_OPEN: Final = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Max, sympy.Min, sympy.Abs)

#: Every class of node that an expression of a program may contain.
VOCABULARY: Final[frozenset[type[sympy.Basic]]] = frozenset(
    (
        *(sympy.Add, sympy.Mul, sympy.Pow, sympy.Max, sympy.Min, sympy.Abs, sympy.Symbol),
        *(sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge),
        *(sympy.And, sympy.Or, sympy.Not),
        *FUNCTIONS.values(),
    )
)


def symbol(name: str) -> sympy.Symbol:
    """Return the integer symbol called ``name``. All integer symbols are made here."""
    return sympy.Symbol(name, integer=True)


def real_symbol(name: str) -> sympy.Symbol:
    """Return the floating-point symbol called ``name``."""
    return sympy.Symbol(name, real=True)


def dim(value: Any) -> Dim:
    """Check and canonicalise a size, stride, offset or count.

    Returns:
        An ``int`` for a constant, else the expression rebuilt in the vocabulary.

    Raises:
        UnsupportedExprError: The value is not an integer or is outside the vocabulary.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise UnsupportedExprError(expr=value, what="a bool where an integer is needed")
    if isinstance(value, (int, sympy.Integer)):
        return int(value)
    if not isinstance(value, sympy.Expr):
        what = f"a {type(value).__name__} where an integer is needed"
        raise UnsupportedExprError(expr=value, what=what)
    result = _rebuild(value)
    if isinstance(result, sympy.Integer):
        return int(result)
    if not _is_integral(result):
        raise UnsupportedExprError(expr=value, what="a real number where an integer is needed")
    return result


@lru_cache(maxsize=65536)
def _is_integral(expr: sympy.Basic) -> bool:
    """Return whether an expression is integer-valued. Sympy cannot tell for powers of symbols."""
    if expr.is_integer is not None or not isinstance(expr, _OPEN):
        return bool(expr.is_integer)
    return all(_is_integral(arg) for arg in expr.args)


def dims(values: Any) -> tuple[Dim, ...]:
    """Apply :func:`dim` to each value."""
    return tuple(value if type(value) is int else dim(value) for value in values)


def scalar_key(value: Scalar) -> tuple[str, object]:
    """Return a key that is equal for identical scalars.

    It distinguishes ``1``, ``1.0`` and ``True``, and ``0.0`` from ``-0.0``. A NaN equals itself.
    """
    if isinstance(value, (float, complex)):
        return (type(value).__name__, repr(value))
    return (type(value).__name__, value)


class ByScalars:
    """Equality and hash for frozen dataclasses with scalars, compared by :func:`scalar_key`.

    Instances are equal if they have the same class and identical fields. Classes of lines, whose
    only base is ``Line``, copy the two methods instead of inheriting.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return _key(self) == _key(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(_key(self))


def _key(value: Any) -> tuple[object, ...]:
    names = _COMPARED.get(type(value))
    if names is None:
        fields = dataclasses.fields(value)
        names = _COMPARED[type(value)] = tuple(f.name for f in fields if f.compare)
    return tuple([_same_as(getattr(value, name)) for name in names])


def _same_as(value: Any) -> object:
    kind = type(value)
    if kind is str:
        return value
    return tuple(map(_same_as, value)) if kind is tuple else scalar_key(value)


#: The fields that are compared, by class.
_COMPARED: Final[dict[type, tuple[str, ...]]] = {}


def scalar(value: Any) -> Scalar:
    """Check and canonicalise a scalar.

    Numbers stay Python numbers, expressions are rebuilt in the vocabulary.

    Raises:
        UnsupportedExprError: The value is outside the vocabulary.
    """
    if isinstance(value, (bool, int, float, complex)):
        return value
    if not isinstance(value, sympy.Basic):
        what = f"a {type(value).__name__} where a number is needed"
        raise UnsupportedExprError(expr=value, what=what)
    result = _rebuild(value)
    if isinstance(result, sympy.Integer):
        return int(result)
    if isinstance(result, sympy.Float):
        return float(result)
    if isinstance(result, BooleanAtom):
        return bool(result)
    return result


@lru_cache(maxsize=65536)
def _rebuild(expr: sympy.Basic) -> sympy.Basic:
    """Rebuild an expression from its leaves in our vocabulary, with evaluation on."""
    if isinstance(expr, (sympy.Integer, sympy.Float, BooleanAtom)):
        return sympy.Float(float(expr)) if isinstance(expr, sympy.Float) else expr
    if isinstance(expr, sympy.Symbol):
        return _plain_symbol(expr)
    kind = type(expr)
    if kind not in VOCABULARY:
        return _translated(expr)
    if kind is sympy.Pow and not _is_natural_power(expr):
        raise UnsupportedExprError(expr=expr, what="a power that is not a natural number")
    args = [_rebuild(arg) for arg in expr.args]
    try:
        return kind(*args)
    except (TypeError, ValueError) as error:
        # Max, Min and relations need an order, which ``3 // 0`` does not have.
        raise UnsupportedExprError(expr=expr, what=f"{_UNKNOWN} ({error})") from error


def _translated(expr: sympy.Basic) -> sympy.Basic:
    """Translate the results of Python's ``//`` and ``%`` on symbols; refuse anything else."""
    if isinstance(expr, sympy.Mod):
        return Mod(*map(_rebuild, expr.args))
    if isinstance(expr, (sympy.floor, sympy.ceiling)):
        whole, part = sympy.fraction(sympy.together(expr.args[0]))
        if whole.is_integer and part.is_integer:
            kind = FloorDiv if isinstance(expr, sympy.floor) else CeilDiv
            return kind(_rebuild(whole), _rebuild(part))
    if isinstance(expr, sympy.Rational):
        hint = "divide with //, or with TrueDiv for a floating-point number"
        raise UnsupportedExprError(expr=expr, what="a fraction", hint=hint)
    raise UnsupportedExprError(expr=expr, what=f"'{type(expr).__name__}'")


def _plain_symbol(expr: sympy.Symbol) -> sympy.Symbol:
    """Return a symbol without sign assumptions; a floating-point symbol stays one."""
    if expr.is_integer is not True and expr.is_real:
        return real_symbol(expr.name)
    return symbol(expr.name)


def _is_natural_power(expr: sympy.Basic) -> bool:
    exponent = expr.args[1]
    return not isinstance(exponent, sympy.Integer) or int(exponent) >= 0


def free_symbols(value: Any) -> frozenset[str]:
    """Return the names of the symbols in a dim or scalar."""
    if isinstance(value, sympy.Basic):
        return _symbol_names(value)
    return _NO_NAMES


_NO_NAMES: Final[frozenset[str]] = frozenset()


@lru_cache(maxsize=65536)
def _symbol_names(expr: sympy.Basic) -> frozenset[str]:
    return frozenset(s.name for s in expr.free_symbols)


def is_relation(value: Any) -> bool:
    """Return whether ``value`` is a truth-valued expression."""
    return isinstance(value, (bool, Relational, Boolean))


def product(values: tuple[Dim, ...]) -> Dim:
    """Return the product of dims, an ``int`` if all are constants."""
    result: Dim = 1
    for value in values:
        result = result * value
    return dim(result)


def quotient(value: Dim, divisor: int) -> Dim | None:
    """Return ``value / divisor`` if that is provably an integer, else None."""
    if isinstance(value, int):
        return value // divisor if value % divisor == 0 else None
    found = value / divisor
    if not found.is_integer:
        return None
    # Half a maximum of even numbers is an integer too, but sympy writes it with fractions.
    is_plain = all(n.is_integer for n in found.atoms(sympy.Rational))
    return dim(found if is_plain else FloorDiv(value, divisor))


def divided(value: Dim, divisor: int) -> Dim:
    """Return ``value / divisor``, rounded down."""
    exact = quotient(value, divisor)
    return dim(FloorDiv(value, divisor)) if exact is None else exact


def ceil_divided(value: Dim, divisor: int) -> Dim:
    """Return ``value / divisor``, rounded up."""
    if isinstance(value, int):
        return -(-value // divisor)
    exact = quotient(value, divisor)
    return dim(CeilDiv(value, divisor)) if exact is None else exact


def substitute(value: Any, bindings: dict[str, int]) -> Any:
    """Replace symbols by integers. Symbols without a binding stay.

    Constant results are returned as Python numbers.

    Raises:
        UnsupportedExprError: The result cannot be evaluated, such as ``Max(1 // 0, 3)``.
    """
    if not isinstance(value, sympy.Basic):
        return value
    pairs = {s: sympy.Integer(bindings[s.name]) for s in value.free_symbols if s.name in bindings}
    if not pairs:
        return value
    try:
        return scalar(value.xreplace(pairs))
    except (TypeError, ValueError) as error:
        raise UnsupportedExprError(expr=value, what=f"{_UNKNOWN} ({error})") from error
