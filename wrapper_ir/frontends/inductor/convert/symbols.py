"""Facts that torch has about its symbols: kind, range, hint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy

from wrapper_ir.frontends.inductor.compat import SymT, symbol_is_type
from wrapper_ir.lines.program import SymbolInfo, SymbolKind

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["known_values", "symbol_info"]


def symbol_info(symbol: sympy.Symbol, graph: Any) -> SymbolInfo:
    """Return kind, range and hint of one of torch's symbols."""
    shape_env = graph.sizevars.shape_env
    is_float = symbol_is_type(symbol, (SymT.FLOAT, SymT.UNBACKED_FLOAT))
    unbacked = symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))
    if is_float:
        return SymbolInfo(SymbolKind.FLOAT, unbacked=unbacked)
    values = shape_env.var_to_range.get(symbol)
    return SymbolInfo(
        SymbolKind.INT,
        _bound(values.lower) if values is not None else None,
        _bound(values.upper) if values is not None else None,
        _hint(symbol, graph),
        unbacked,
    )


def _bound(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, sympy.Integer)) else None


def known_values(graph: Any) -> Mapping[sympy.Symbol, Any]:
    """Return which numbers symbols stood for when a graph was traced."""
    known: Mapping[sympy.Symbol, Any] = graph.sizevars.backed_var_to_val
    return known


def _hint(symbol: sympy.Symbol, graph: Any) -> int | None:
    value = known_values(graph).get(symbol)
    return int(value) if isinstance(value, (int, sympy.Integer)) else None
