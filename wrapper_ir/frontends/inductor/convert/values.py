"""Torch's dtypes, devices and layouts as ours."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import sympy
import torch

from wrapper_ir.frontends.common.expressions import to_dim
from wrapper_ir.frontends.common.ops import to_device
from wrapper_ir.frontends.inductor.compat import SymT, symbol_is_type
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.program import SymbolInfo, SymbolKind

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def to_dtype(dtype: torch.dtype) -> DType:
    """Return the element type.

    Raises:
        UnsupportedLineError: The IR has no such type.
    """
    try:
        return DType.from_torch_name(str(dtype))
    except KeyError:
        raise UnsupportedLineError(
            kind="element type", text=str(dtype), why="the IR has no such type"
        ) from None


def to_layout(source: Any) -> Layout:
    """Return the layout of one of Inductor's layouts, counted from the start of its storage."""
    return Layout(
        to_dtype(source.dtype),
        to_device(source.device),
        tuple(to_dim(size) for size in source.size),
        tuple(to_dim(stride) for stride in source.stride),
        to_dim(source.offset),
    )


def tensor_layout(tensor: torch.Tensor) -> Layout:
    """Return the layout of a real tensor, counted from its first element."""
    like = tensor
    if tensor.is_mkldnn:  # packed by oneDNN or MKL: its own strides say nothing
        like = torch.empty(tensor.size(), dtype=tensor.dtype, device="meta")
    return Layout(
        to_dtype(tensor.dtype),
        to_device(tensor.device),
        tuple(tensor.size()),
        tuple(like.stride()),
    )


# Facts that torch has about its symbols: kind, range, hint.


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
