"""Symbols whose value only the data gives, by what Inductor's lines and nodes note of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.common.unbacked import UnknownWayError, bind_along, split, way_in
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.symbols import ItemOf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import sympy

    from wrapper_ir.frontends.common.unbacked import Way
    from wrapper_ir.frontends.inductor.convert.relations import Path
    from wrapper_ir.frontends.inductor.convert.state import Scope


def bind_unbacked(scope: Scope, leaves: Mapping[str, Mapping[Path, str]], line: Any) -> None:
    """Convert an ``UnbackedSymbolDefsLine``: bind what a call's result decides.

    Args:
        scope: Where the lines go.
        leaves: Names of the leaves of each call's result, by the name of the whole and by path.
        line: Inductor's.

    Raises:
        UnsupportedLineError: The way from the result to the symbol is none that we know.
    """
    for symbol, keypath in (line.unbacked_bindings or {}).items():
        path, rest = split(keypath)
        if not rest:
            continue  # the call itself has defined it
        if symbol.name in scope.bound:
            continue
        buffer = scope.resolve(leaves[line.output_name][path])
        try:
            way = way_in(symbol.name, buffer, rest)
        except UnknownWayError as error:
            raise _unknown(buffer, error) from None
        _bind(scope, symbol, way)


def bind_item(scope: Scope, node: Any) -> None:
    """Convert a ``DynamicScalarLine``: read the only element of a tensor on the host."""
    (data,) = node.inputs
    origin = scope.origin(node)
    _bind(scope, node.sym, (ItemOf(scope.reference(data, origin)), tuple(node.keypath)))


def result_symbols(line: Any) -> list[tuple[sympy.Symbol, Path]]:
    """Return the symbols that are themselves leaves of a call's result, with their paths."""
    found = ((symbol, *split(keypath)) for symbol, keypath in line.unbacked_bindings.items())
    return [(symbol, path) for symbol, path, rest in found if not rest]


def tensor_leaves(line: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the tensors of a call's result whose metadata decide symbols, with their paths."""
    for keypath in line.unbacked_bindings.values():
        path, rest = split(keypath)
        if rest:
            leaf = line.outputs
            for index in path or (0,):
                leaf = leaf[index]
            yield path, leaf


def _bind(scope: Scope, symbol: sympy.Symbol, way: Way) -> None:
    try:
        bind_along(scope.draft, symbol.name, way, bind=lambda: scope.bind(symbol), dim=scope.dim)
    except UnknownWayError as error:
        raise _unknown(symbol.name, error) from None


def _unknown(what: str, error: UnknownWayError) -> UnsupportedLineError:
    return UnsupportedLineError(
        kind="definition of a symbol", text=f"{what}: {error.shown}", why="unknown way to its value"
    )
