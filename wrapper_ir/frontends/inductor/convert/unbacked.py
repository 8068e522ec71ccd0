"""Symbols whose value only the data gives: sizes of results, numbers read from tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy

from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.program import SymbolInfo
from wrapper_ir.lines.symbols import (
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    ItemOf,
    SizeOf,
    StorageOffsetOf,
    StrideOf,
    SymbolSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.frontends.inductor.convert.externs import ExternConverter
    from wrapper_ir.frontends.inductor.convert.relations import Path
    from wrapper_ir.frontends.inductor.convert.state import Scope

__all__ = ["bind_item", "bind_unbacked", "result_symbols", "tensor_leaves"]


def bind_unbacked(scope: Scope, externs: ExternConverter, line: Any) -> None:
    """Convert an ``UnbackedSymbolDefsLine``: bind what a call's result decides.

    Raises:
        UnsupportedLineError: The way from the result to the symbol is none that we know.
    """
    for symbol, keypath in (line.unbacked_bindings or {}).items():
        path, rest = _split(keypath)
        if not rest:
            continue  # the call itself has defined it
        if symbol.name in scope.bound:
            continue
        buffer = externs.leaves[line.output_name][path]
        source, rest = _source(scope.resolve(buffer), rest)
        _bind(scope, symbol, source, rest)


def bind_item(scope: Scope, node: Any) -> None:
    """Convert a ``DynamicScalarLine``: read the only element of a tensor on the host."""
    (data,) = node.inputs
    origin = scope.origin(node)
    _bind(scope, node.sym, ItemOf(scope.reference(data, origin)), tuple(node.keypath))


def result_symbols(line: Any) -> list[tuple[sympy.Symbol, Path]]:
    """Return the symbols that are themselves leaves of a call's result, with their paths."""
    split = ((symbol, *_split(keypath)) for symbol, keypath in line.unbacked_bindings.items())
    return [(symbol, path) for symbol, path, rest in split if not rest]


def tensor_leaves(line: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the tensors of a call's result whose metadata decide symbols, with their paths."""
    for keypath in line.unbacked_bindings.values():
        path, rest = _split(keypath)
        if rest:
            leaf = line.outputs
            for index in path or (0,):
                leaf = leaf[index]
            yield path, leaf


def _split(keypath: Any) -> tuple[Path, tuple[Any, ...]]:
    """Return the leading indices of a key path, and what is left."""
    keys = tuple(keypath)
    count = 0
    while count < len(keys) and type(keys[count]).__name__ == "SequenceKey":
        count += 1
    return tuple(key.idx for key in keys[:count]), keys[count:]


def _source(buffer: str, keys: tuple[Any, ...]) -> tuple[SymbolSource, tuple[Any, ...]]:
    """Return where in a tensor's metadata a symbol is found, and the keys that are left."""
    method = getattr(keys[0], "name", None)
    if method in ("size", "stride") and len(keys) > 1 and hasattr(keys[1], "idx"):
        made = SizeOf if method == "size" else StrideOf
        return made(buffer, keys[1].idx), keys[2:]
    if method == "storage_offset":
        return StorageOffsetOf(buffer), keys[1:]
    raise _unknown(buffer, keys)


def _bind(scope: Scope, symbol: sympy.Symbol, source: SymbolSource, keys: tuple[Any, ...]) -> None:
    """Bind a symbol to a source, by way of what the remaining keys do to the value."""
    if not keys:
        scope.emit(BindSymbol(scope.bind(symbol), source))
        return
    kind = type(keys[0]).__name__
    if len(keys) > 1 or kind not in ("ConvertIntKey", "DivideByKey"):
        raise _unknown(symbol.name, keys)
    raw = scope.shared.fresh_name(f"{symbol.name}_raw")
    scope.shared.symbols[raw] = SymbolInfo(unbacked=True)
    scope.shared.bound.add(raw)
    scope.bound.add(raw)
    scope.emit(BindSymbol(raw, source))
    value = ours.symbol(raw)
    if kind == "ConvertIntKey":
        result = ours.Where(sympy.Ne(value, 0), sympy.S.One, sympy.S.Zero)
    else:
        divisor = scope.dim(keys[0].divisor)
        message = f"{symbol.name} is not divisible by {divisor}"
        scope.emit(AssertSymbol(sympy.Eq(ours.Mod(value, divisor), 0), message))
        result = ours.FloorDiv(value, divisor)
    scope.emit(ComputeSymbol(scope.bind(symbol), result))


def _unknown(what: str, keys: tuple[Any, ...]) -> UnsupportedLineError:
    shown = ".".join(str(key) for key in keys)
    return UnsupportedLineError(
        kind="definition of a symbol", text=f"{what}: {shown}", why="unknown way to its value"
    )
