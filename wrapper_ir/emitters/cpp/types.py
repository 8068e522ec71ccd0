"""Typed expressions: C++ text that knows its type, and conversions between the few types."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import assert_never

from wrapper_ir.lines.kernels import ScalarType
from wrapper_ir.lines.program import SymbolKind


class CType(enum.Enum):
    """The types of the numbers in generated code; the value is how C++ spells it."""

    INT = "wir::Int"
    """A checked integer of 64 bits."""
    REAL = "double"
    BOOL = "bool"
    INT64 = "std::int64_t"
    INT32 = "std::int32_t"
    UINT64 = "std::uint64_t"
    FLOAT = "float"

    @property
    def spelling(self) -> str:
        """The type in C++."""
        return str(self.value)


@dataclass(frozen=True, slots=True)
class CExpr:
    """An expression in C++ and its type."""

    text: str
    type: CType
    is_literal: bool = False
    """Whether it is a single literal, which C++ converts without being asked."""


def convert(expr: CExpr, type_: CType) -> CExpr:
    """The expression in another type; conversions that could lose something are checked."""
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
            return text if expr.is_literal else f"wir::narrow<{type_.spelling}>({text})"
        case CType.FLOAT:
            return f"static_cast<float>({_converted(expr, CType.REAL)})"
    assert_never(type_)


def symbol_type(kind: SymbolKind) -> CType:
    """The type of a symbol's variable."""
    match kind:
        case SymbolKind.INT | SymbolKind.NONE:  # nothing reads the variable of the latter
            return CType.INT
        case SymbolKind.FLOAT:
            return CType.REAL
        case SymbolKind.BOOL:
            return CType.BOOL
    assert_never(kind)


def parameter_type(type_: ScalarType) -> CType:
    """The type of a kernel's scalar parameter."""
    return {
        ScalarType.INT64: CType.INT64,
        ScalarType.INT32: CType.INT32,
        ScalarType.UINT64: CType.UINT64,
        ScalarType.FLOAT64: CType.REAL,
        ScalarType.FLOAT32: CType.FLOAT,
        ScalarType.BOOL: CType.BOOL,
    }[type_]
