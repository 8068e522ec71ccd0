"""The element type of a number that is a result of a library, where results are tensors.

AOTInductor keeps a number in a variable of the type of the tensor it was read from, writes
expressions as C++ and makes a tensor of what comes out. Ours are computed in 64 bits; what they
are handed over as is what C++'s conversions would have made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from wrapper_ir.emitters.cpp.exprs import REAL_FUNCTIONS
from wrapper_ir.lines import expr as vocabulary
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.program import SymbolKind
from wrapper_ir.lines.symbols import BindSymbol, ComputeSymbol, ItemOf
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.lines.expr import Scalar
    from wrapper_ir.lines.program import Program


_OF_KIND: Final = {SymbolKind.FLOAT: DType.FLOAT64, SymbolKind.BOOL: DType.BOOL}
_HALVES: Final = (DType.FLOAT16, DType.BFLOAT16)
_REALS: Final = (DType.FLOAT32, DType.FLOAT64)

_FUNCTIONS: Final = tuple(each for each in REAL_FUNCTIONS if each is not vocabulary.ToFloat)
"""They compute in float if all their arguments are floats, else in double."""

_ARITHMETIC: Final = (sympy.Add, sympy.Mul, sympy.Abs)


def symbol_types(program: Program) -> dict[str, DType]:
    """The types of the program's symbols that do not take 64 bits."""
    found: dict[str, DType] = {}
    for _, line in walk(program):
        if isinstance(line, BindSymbol) and isinstance(line.source, ItemOf):
            type_ = program.layout(line.source.buffer).dtype
            of_kind = _OF_KIND.get(program.symbols[line.symbol].kind, DType.INT64)
            if of_kind in _REALS or type_.is_integral:
                found[line.symbol] = DType.FLOAT32 if type_ in _HALVES else type_
        elif isinstance(line, ComputeSymbol):
            found[line.symbol] = number_type(line.value, program, found)
    return found


def number_type(value: Scalar, program: Program, symbols: Mapping[str, DType]) -> DType:
    """The element type of a number; ``symbols`` are those of :func:`symbol_types`."""
    if isinstance(value, bool):
        return DType.BOOL
    if isinstance(value, int):
        return DType.INT64
    if not isinstance(value, sympy.Basic):
        return DType.FLOAT64
    return _type_of(value, program, symbols)


def _type_of(expr: sympy.Basic, program: Program, symbols: Mapping[str, DType]) -> DType:
    if isinstance(expr, sympy.Symbol):
        kind = program.symbols[expr.name].kind
        return symbols.get(expr.name, _OF_KIND.get(kind, DType.INT64))
    if isinstance(expr, (Relational, Boolean)):
        return DType.BOOL
    if isinstance(expr, vocabulary.Where):
        first, second = (_type_of(arg, program, symbols) for arg in expr.args[1:])
        return first if first is second else _joined([first, second])
    args = [_type_of(arg, program, symbols) for arg in expr.args]
    if isinstance(expr, _ARITHMETIC):
        return _joined(args)
    if isinstance(expr, _FUNCTIONS):
        return DType.FLOAT32 if set(args) == {DType.FLOAT32} else DType.FLOAT64
    is_real = isinstance(expr, (sympy.Max, sympy.Min)) and any(arg in _REALS for arg in args)
    if isinstance(expr, sympy.Pow) and args[0] in _REALS:
        return args[0]
    if is_real or isinstance(expr, (vocabulary.ToFloat, sympy.Float)) or expr.is_infinite:
        return DType.FLOAT64
    return DType.INT64


def _joined(types: list[DType]) -> DType:
    """Return the type that C++ computes in with several: a wider one, at least an int."""
    reals = [type_ for type_ in types if type_ in _REALS]
    if reals:
        return max(reals, key=lambda type_: type_.itemsize)
    promoted = [_promoted(type_) for type_ in types]
    return max(promoted, key=lambda type_: (type_.itemsize, type_.name.startswith("U")))


def _promoted(type_: DType) -> DType:
    return DType.INT32 if type_.itemsize < DType.INT32.itemsize else type_
