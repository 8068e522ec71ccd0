"""Symbolic numbers: arithmetic of fx nodes in our vocabulary, and numbers that data gives.

Torch knows each such node's value too, but simplified by all that was learnt later: of a check
``u0 == 4`` only ``True`` would be left. So what a node computes is computed again, from what went
in.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.aten.state import Ref, UnsupportedNodeError
from wrapper_ir.frontends.common.expressions import to_scalar
from wrapper_ir.frontends.common.ops import SYMBOLIC, Path
from wrapper_ir.frontends.common.symbols import Binding, bind_along, bindings_of
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.expr import is_relation
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

    from torch.fx import Node

    from wrapper_ir.frontends.aten.state import GraphWalk


Make = Callable[..., Any]


def _is_int(value: Any) -> bool:
    return value.is_integer is True if isinstance(value, sympy.Basic) else isinstance(value, int)


def _floor_div(a: Any, b: Any) -> Any:
    return ours.FloorDiv(a, b) if _is_int(a) and _is_int(b) else None


def _mod(a: Any, b: Any) -> Any:
    return ours.Mod(a, b) if _is_int(a) and _is_int(b) else None


def _pow(a: Any, b: Any) -> Any:
    if _is_int(a) and isinstance(b, (int, sympy.Integer)) and b >= 0:
        return sympy.Pow(a, b)
    return None if _is_int(a) and _is_int(b) else ours.FloatPow(a, b)


def _rounded(of_real: Make) -> Make:
    def make(value: Any) -> Any:
        return value if _is_int(value) else of_real(value)

    return make


def _to_float(value: Any) -> Any:
    return ours.ToFloat(value) if _is_int(value) else value


def _to_int(value: Any) -> Any:
    if is_relation(value):
        return ours.Where(value, sympy.S.One, sympy.S.Zero)
    return value if _is_int(value) else ours.Truncate(value)


def _both(logical: Make, bitwise: Make) -> Make:
    def make(a: Any, b: Any) -> Any:
        return logical(a, b) if is_relation(a) and is_relation(b) else bitwise(a, b)

    return make


def _ite(condition: Any, a: Any, b: Any) -> Any:
    return ours.Where(condition, a, b)


#: Functions of a real number, by the name that they have in ``math`` and in torch.
_REAL: Final[Mapping[str, Make]] = {
    "exp": ours.Exp,
    "log": ours.Log,
    "log2": ours.Log2,
    "sqrt": ours.Sqrt,
    "sin": ours.Sin,
    "cos": ours.Cos,
    "tanh": ours.Tanh,
}

#: What a node may call -> what makes its value; None where the vocabulary lacks it.
FUNCTIONS: Final[Mapping[Any, Make]] = {
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
    operator.neg: lambda a: -a,
    operator.pos: lambda a: a,
    operator.abs: sympy.Abs,
    operator.floordiv: _floor_div,
    operator.truediv: ours.TrueDiv,
    operator.mod: _mod,
    operator.pow: _pow,
    operator.eq: sympy.Eq,
    operator.ne: sympy.Ne,
    operator.lt: sympy.Lt,
    operator.le: sympy.Le,
    operator.gt: sympy.Gt,
    operator.ge: sympy.Ge,
    operator.and_: _both(sympy.And, ours.BitAnd),
    operator.or_: _both(sympy.Or, ours.BitOr),
    operator.xor: ours.BitXor,
    operator.lshift: ours.ShiftLeft,
    operator.rshift: ours.ShiftRight,
    operator.not_: sympy.Not,
    torch.sym_not: sympy.Not,
    torch.sym_max: sympy.Max,
    torch.sym_min: sympy.Min,
    torch.sym_int: _to_int,
    torch.sym_float: _to_float,
    torch.sym_ite: _ite,
    torch.sym_sum: lambda values: sympy.Add(*values),
    math.floor: _rounded(ours.Floor),
    math.ceil: _rounded(ours.Ceil),
    math.trunc: _rounded(ours.Truncate),
    round: _rounded(ours.Round),
    abs: sympy.Abs,
    pow: _pow,
    int: _to_int,
    float: _to_float,
    max: sympy.Max,
    min: sympy.Min,
    **{getattr(math, name): make for name, make in _REAL.items()},
    complex: lambda *parts: None,
}

#: The same by name, for functions that torch keeps to itself and those of our own FX emitter.
_BY_NAME: Final[Mapping[str, Make]] = {"where": _ite, **_REAL}


def find(target: Any) -> Make | None:
    """Return what makes the value of a call of a function, if it is one of numbers."""
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
    """Return what a function gives for numbers; None where the vocabulary cannot say it."""
    if not any(isinstance(leaf, sympy.Basic) for arg in args for leaf in _leaves(arg)):
        return target(*args)
    make = find(target)
    assert make is not None
    try:
        value = make(*(_sympified(arg) for arg in args))
    except (TypeError, ValueError):
        return None
    return None if value is None else to_scalar(value)


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _sympified(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_sympified(item) for item in value]
    return value if isinstance(value, sympy.Basic) else sympy.sympify(value)


# Symbols whose value only the data gives: sizes of results, numbers read from tensors.


def kind_of(value: Any) -> SymbolKind:
    """Return what one of torch's symbolic numbers is."""
    return SymbolKind.FLOAT if isinstance(value, torch.SymFloat) else SymbolKind.INT


def bind_unbacked(walk: GraphWalk, node: Node, leaves: Mapping[Path, Any]) -> None:
    """Bind what the metadata of a node's results decides."""
    for binding in noted_by(node):
        leaf = leaves.get(binding.path)
        if binding.keys and isinstance(leaf, Ref) and binding.name not in walk.state.draft.bound:
            _bind(walk, node, binding, leaf.name)


def noted_by(node: Node) -> list[Binding]:
    """Return the symbols that a node binds, as torch noted them."""
    return bindings_of(node.meta.get("unbacked_bindings"))


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
    for binding in noted_by(node):
        if binding.name not in state.draft.bound:
            _bind(walk, node, binding, ItemOf(tensor.name), kind)
            number = state.draft.symbol(binding.name)
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
    start: str | SymbolSource,
    kind: SymbolKind = SymbolKind.INT,
) -> None:
    state = walk.state
    bind_along(
        state.draft,
        binding,
        start,
        bind=lambda: state.bind(binding.name, kind, unbacked=True),
        dim=state.dim,
        origin=state.origin(node),
    )
