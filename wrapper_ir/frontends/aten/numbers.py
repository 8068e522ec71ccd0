"""Symbolic numbers: arithmetic of fx nodes in our vocabulary, and numbers that depend on data.

Torch knows the value of each such node, too, but simplified by facts that it learned later: a check
``u0 == 4`` would become ``True``. So each node's value is computed again from its arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch
from torch.utils import _pytree as pytree

from wrapper_ir.frontends.aten.state import GraphWalk, Ref, UnsupportedNodeError
from wrapper_ir.frontends.common.expressions import REAL_FUNCTIONS, to_scalar
from wrapper_ir.frontends.common.ops import SYMBOLIC, Path
from wrapper_ir.frontends.common.symbols import Binding, bind_along, bindings_of
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines import symbols
from wrapper_ir.lines.expr import is_relation
from wrapper_ir.lines.layout import DType
from wrapper_ir.lines.program import SymbolKind

if TYPE_CHECKING:

    from torch.fx import Node


Make = Callable[..., Any]


def _is_int(value: Any) -> bool:
    return value.is_integer is True if isinstance(value, sympy.Basic) else isinstance(value, int)


def _of_ints(make: Make) -> Make:
    return lambda a, b: make(a, b) if _is_int(a) and _is_int(b) else None


def _pow(a: Any, b: Any) -> Any:
    if _is_int(a) and isinstance(b, (int, sympy.Integer)) and b >= 0:
        return sympy.Pow(a, b)
    return None if _is_int(a) and _is_int(b) else ours.FloatPow(a, b)


def _rounded(of_real: Make) -> Make:
    return lambda value: value if _is_int(value) else of_real(value)


def _to_float(value: Any) -> Any:
    return ours.ToFloat(value) if _is_int(value) else value


def _to_int(value: Any) -> Any:
    if is_relation(value):
        return ours.Where(value, sympy.S.One, sympy.S.Zero)
    return value if _is_int(value) else ours.Truncate(value)


def _both(logical: Make, bitwise: Make) -> Make:
    return lambda a, b: (logical if is_relation(a) and is_relation(b) else bitwise)(a, b)


#: Callees of nodes -> functions that compute the value; None if the vocabulary lacks it.
FUNCTIONS: Final[Mapping[Any, Make]] = {
    # The arguments are sympy's, which has these operators.
    **{f: f for f in (operator.add, operator.sub, operator.mul, operator.neg, operator.pos)},
    **dict.fromkeys((operator.abs, abs), sympy.Abs),
    operator.floordiv: _of_ints(ours.FloorDiv),
    operator.truediv: ours.TrueDiv,
    operator.mod: _of_ints(ours.Mod),
    **dict.fromkeys((operator.pow, pow), _pow),
    **{
        getattr(operator, relation.lower()): getattr(sympy, relation)
        for relation in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge")
    },
    operator.and_: _both(sympy.And, ours.BitAnd),
    operator.or_: _both(sympy.Or, ours.BitOr),
    operator.xor: ours.BitXor,
    operator.lshift: ours.ShiftLeft,
    operator.rshift: ours.ShiftRight,
    **dict.fromkeys((operator.not_, torch.sym_not), sympy.Not),
    **dict.fromkeys((torch.sym_max, max), sympy.Max),
    **dict.fromkeys((torch.sym_min, min), sympy.Min),
    **dict.fromkeys((torch.sym_int, int), _to_int),
    **dict.fromkeys((torch.sym_float, float), _to_float),
    torch.sym_ite: ours.Where,
    torch.sym_sum: lambda values: sympy.Add(*values),
    math.floor: _rounded(ours.Floor),
    math.ceil: _rounded(ours.Ceil),
    math.trunc: _rounded(ours.Truncate),
    round: _rounded(ours.Round),
    **{getattr(math, name): make for name, make in REAL_FUNCTIONS.items()},
    complex: lambda *parts: None,
}

#: The same by name, for torch's private functions and those of our own FX emitter.
_BY_NAME: Final[Mapping[str, Make]] = {"where": ours.Where, **REAL_FUNCTIONS}


def find(target: Any) -> Make | None:
    """Return the function that computes the value of a call; None if it is not one of numbers."""
    try:
        found = FUNCTIONS.get(target)
    except TypeError:  # not every callable can be looked up
        return None
    if found is None:
        home, name = getattr(target, "__module__", ""), getattr(target, "__name__", "")
        if home == "wrapper_ir.emitters.fx.numbers" or name.startswith("_sym_"):
            return _BY_NAME.get(name.removeprefix("_sym_"))
    return found


def apply(target: Any, args: tuple[Any, ...]) -> Any:
    """Return the value of a function of numbers; None if the vocabulary cannot express it."""
    if not any(isinstance(leaf, sympy.Basic) for leaf in pytree.tree_leaves(args)):
        return target(*args)
    make = find(target)
    assert make is not None
    try:
        value = make(*pytree.tree_map(sympy.sympify, args))
    except (TypeError, ValueError):
        return None
    return None if value is None else to_scalar(value)


# Unbacked symbols: sizes of results, numbers read from tensors.


def kind_of(value: Any) -> SymbolKind:
    """Return the kind of torch's symbolic number."""
    return SymbolKind.FLOAT if isinstance(value, torch.SymFloat) else SymbolKind.INT


def bind_unbacked(walk: GraphWalk, node: Node, leaves: Mapping[Path, Any]) -> None:
    """Bind the symbols that the metadata of a node's results determine."""
    for binding in noted_by(node):
        leaf = leaves.get(binding.path)
        if binding.keys and isinstance(leaf, Ref) and binding.name not in walk.state.draft.bound:
            _bind(walk, node, binding, leaf.name)


def noted_by(node: Node) -> list[Binding]:
    """Return the symbols that a node binds, from torch's record of them."""
    return bindings_of(node.meta.get("unbacked_bindings"))


def bind_item(walk: GraphWalk, node: Node) -> Any:
    """Convert the reading of a tensor's only element on the host."""
    (tensor,) = walk.value(node.args)
    state, value = walk.state, node.meta.get("val")
    if isinstance(value, (bool, int, float)):
        return value  # the tensor always holds this number
    if not isinstance(tensor, Ref):
        raise UnsupportedNodeError("it reads something that is not a tensor")
    if not isinstance(value, SYMBOLIC):
        name = state.bind_fresh(node.name, _kind_in(state.draft.buffers[tensor.name].dtype))
        walk.emit(symbols.BindSymbol(name, symbols.ItemOf(tensor.name), origin=state.origin(node)))
        return state.draft.symbol(name)
    kind = kind_of(value)
    for binding in noted_by(node):
        if binding.name not in state.draft.bound:
            _bind(walk, node, binding, symbols.ItemOf(tensor.name), kind)
            number = state.draft.symbol(binding.name)
            return sympy.Ne(number, 0) if isinstance(value, torch.SymBool) else number
    known = value.node.expr
    if known.is_Symbol and known.name in state.draft.bound:
        return state.draft.symbol(known.name)  # read before
    # Torch recorded nothing: it knows the number by now, or another tool made the graph.
    if known.is_Symbol and known.name not in state.known:
        name = state.bind(known.name, kind, unbacked=True)
    else:
        name = state.bind_fresh(node.name, kind)
    walk.emit(symbols.BindSymbol(name, symbols.ItemOf(tensor.name), origin=state.origin(node)))
    return state.draft.symbol(name)


def _kind_in(dtype: DType) -> SymbolKind:
    """Return the kind of number that a tensor holds."""
    if dtype.is_complex:
        raise UnsupportedNodeError("it reads a complex number")
    if dtype is DType.BOOL:
        return SymbolKind.BOOL
    return SymbolKind.FLOAT if dtype.is_floating else SymbolKind.INT


def bind_metadata(walk: GraphWalk, node: Node) -> None:
    """Bind a symbol to the size, stride or offset that a node reads, if it is still unbound.

    Torch records the sources of symbols, but other tools that make graphs may not.
    """
    state = walk.state
    value: Any = node.meta["val"]
    tensor, *rest = walk.value(node.args)
    expr = value.node.expr
    is_new = expr.is_Symbol and expr.name not in (state.draft.bound | state.known.keys())
    if not is_new or not isinstance(tensor, Ref):
        return
    target: Any = node.target
    sources: dict[str, Any] = {"sym_storage_offset": symbols.StorageOffsetOf(tensor.name)}
    if rest:
        sources["sym_size"] = symbols.SizeOf(tensor.name, rest[0])
        sources["sym_stride"] = symbols.StrideOf(tensor.name, rest[0])
    source = sources.get(target.name().removeprefix("aten::").partition(".")[0])
    if source is not None:
        name = state.bind(expr.name, unbacked=True)
        walk.emit(symbols.BindSymbol(name, source, origin=state.origin(node)))


def _bind(
    walk: GraphWalk,
    node: Node,
    binding: Binding,
    start: str | symbols.SymbolSource,
    kind: SymbolKind = SymbolKind.INT,
) -> None:
    state = walk.state
    bind = partial(state.bind, binding.name, kind, unbacked=True)
    bind_along(state.draft, binding, start, bind=bind, dim=state.dim, origin=state.origin(node))
