"""Symbols whose value only the data gives: sizes of results, numbers read from tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
import torch

from wrapper_ir.frontends.aten.schemas import Path
from wrapper_ir.frontends.aten.state import Ref, UnsupportedNodeError
from wrapper_ir.frontends.common.ops import SYMBOLIC
from wrapper_ir.frontends.common.unbacked import Keys, Way, bind_along, split, way_in
from wrapper_ir.lines.layout import DType
from wrapper_ir.lines.program import SymbolKind
from wrapper_ir.lines.symbols import (
    BindSymbol,
    ItemOf,
    SizeOf,
    StorageOffsetOf,
    StrideOf,
    SymbolSource,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.fx import Node

    from wrapper_ir.frontends.aten.state import GraphWalk


@dataclass(frozen=True, slots=True)
class Binding:
    """A symbol that a node's result decides.

    Attributes:
        symbol: Its name.
        path: Of the leaf of the result.
        keys: The way from there to the number, in torch's terms; empty if the leaf is the number.
    """

    symbol: str
    path: Path
    keys: Keys


def bindings_of(node: Node) -> list[Binding]:
    """Return the symbols that a node binds, as torch noted them."""
    found: Mapping[Any, Any] = node.meta.get("unbacked_bindings") or {}
    return [Binding(str(symbol), *split(keypath)) for symbol, keypath in found.items()]


def kind_of(value: Any) -> SymbolKind:
    """Return what one of torch's symbolic numbers is."""
    return SymbolKind.FLOAT if isinstance(value, torch.SymFloat) else SymbolKind.INT


def bind_unbacked(
    walk: GraphWalk, node: Node, bindings: Sequence[Binding], leaves: Mapping[Path, Any]
) -> None:
    """Bind what the metadata of a node's results decides."""
    for binding in bindings:
        leaf = leaves.get(binding.path)
        if binding.keys and isinstance(leaf, Ref) and binding.symbol not in walk.state.draft.bound:
            way = way_in(binding.symbol, leaf.name, binding.keys)
            _bind(walk, node, binding, way)


def bind_item(walk: GraphWalk, node: Node) -> Any:
    """Convert the reading of a tensor's only element on the host."""
    (tensor,) = (walk.value(arg) for arg in node.args)
    state, value = walk.state, node.meta.get("val")
    if isinstance(value, (bool, int, float)):
        return value  # of a tensor that always holds this
    if not isinstance(tensor, Ref):
        raise UnsupportedNodeError("what is read is no tensor")
    if not isinstance(value, SYMBOLIC):
        name = state.bind_fresh(node.name, _kind_in(state.draft.buffers[tensor.name].dtype))
        walk.emit(BindSymbol(name, ItemOf(tensor.name), origin=state.origin(node)))
        return state.draft.symbol(name)
    kind = kind_of(value)
    for binding in bindings_of(node):
        if binding.symbol not in state.draft.bound:
            _bind(walk, node, binding, (ItemOf(tensor.name), binding.keys), kind)
            number = state.draft.symbol(binding.symbol)
            return sympy.Ne(number, 0) if isinstance(value, torch.SymBool) else number
    known = value.node.expr
    if known.is_Symbol and known.name in state.draft.bound:
        return state.draft.symbol(known.name)  # read before
    # Torch has noted nothing: it knows the number by now, or another tool has made the graph.
    if known.is_Symbol and known.name not in state.known:
        name = state.bind(known.name, kind, unbacked=True)
    else:
        name = state.bind_fresh(node.name, kind)
    walk.emit(BindSymbol(name, ItemOf(tensor.name), origin=state.origin(node)))
    return state.draft.symbol(name)


def _kind_in(dtype: DType) -> SymbolKind:
    """Return what numbers a tensor holds."""
    if dtype.is_complex:
        raise UnsupportedNodeError("a complex number is read")
    if dtype is DType.BOOL:
        return SymbolKind.BOOL
    return SymbolKind.FLOAT if dtype.is_floating else SymbolKind.INT


def bind_metadata(walk: GraphWalk, node: Node) -> None:
    """Bind a symbol to the size, stride or offset that a node reads, if nothing has before.

    Torch notes what binds a symbol; other tools that make graphs may not.
    """
    state = walk.state
    value: Any = node.meta["val"]
    tensor, *rest = (walk.value(arg) for arg in node.args)
    expr = value.node.expr
    is_new = expr.is_Symbol and expr.name not in (state.draft.bound | state.known.keys())
    if not is_new or not isinstance(tensor, Ref):
        return
    target: Any = node.target
    sources: dict[str, SymbolSource] = {"sym_storage_offset": StorageOffsetOf(tensor.name)}
    if rest:
        sources["sym_size"] = SizeOf(tensor.name, rest[0])
        sources["sym_stride"] = StrideOf(tensor.name, rest[0])
    source = sources.get(target.name().removeprefix("aten::").partition(".")[0])
    if source is not None:
        name = state.bind(expr.name, unbacked=True)
        walk.emit(BindSymbol(name, source, origin=state.origin(node)))


def _bind(
    walk: GraphWalk,
    node: Node,
    binding: Binding,
    way: Way,
    kind: SymbolKind = SymbolKind.INT,
) -> None:
    state = walk.state
    bind_along(
        state.draft,
        binding.symbol,
        way,
        bind=lambda: state.bind(binding.symbol, kind, unbacked=True),
        dim=state.dim,
        origin=state.origin(node),
    )
