"""Ops that are lines of their own: sizes, checks, numbers read from tensors, memory, views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.build.draft import range_checks
from wrapper_ir.frontends.aten.calls import Expected, call_op, emit_call
from wrapper_ir.frontends.aten.state import Ref, UnsupportedNodeError, elements
from wrapper_ir.frontends.aten.unbacked import bind_item, bind_metadata
from wrapper_ir.frontends.common.ops import SYMBOLIC
from wrapper_ir.lines.args import Relation
from wrapper_ir.lines.expr import dim, is_relation
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.memory import Allocate, MemoryKind, Reinterpret
from wrapper_ir.lines.symbols import AssertSymbol

if TYPE_CHECKING:
    from torch.fx import Node

    from wrapper_ir.frontends.aten.state import GraphWalk


def _metadata(walk: GraphWalk, node: Node) -> Any:
    """Return what an op reads off a tensor's metadata, which layouts say already."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        bind_metadata(walk, node)
    if isinstance(value, (bool, int, *SYMBOLIC)):
        return walk.state.scalar(value)
    if isinstance(value, (list, tuple)):
        return [walk.state.scalar(item) for item in value]
    raise UnsupportedNodeError("its value is not known")


def _assert_scalar(walk: GraphWalk, node: Node) -> None:
    condition, *rest = (walk.value(arg) for arg in node.args)
    if not is_relation(condition):
        condition = sympy.Ne(condition, 0)
    message = rest[0] if rest else node.kwargs.get("assert_msg", "")
    walk.emit(AssertSymbol(condition, str(message), origin=walk.state.origin(node)))


def _constrain_range(walk: GraphWalk, node: Node) -> None:
    values = [walk.value(arg) for arg in node.args]
    names = ("size", "min", "max")
    given = {**dict(zip(names, values, strict=False)), **node.kwargs}
    value = given["size"]
    lower, upper = (walk.value(given.get(bound)) for bound in ("min", "max"))
    if lower is None and "for_size" in str(node.target):
        lower = 0
    if lower is not None or upper is not None:
        for check in range_checks(value, lower, upper, value, walk.state.origin(node)):
            walk.emit(check)


def _same(walk: GraphWalk, node: Node) -> Any:
    """Return the argument of an op that does nothing where no gradients are computed."""
    return walk.value(node.args[0])


def _empty(walk: GraphWalk, node: Node) -> Any:
    """Convert an op that makes a tensor without contents."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return call_op(walk, node)
    pinned = bool(node.kwargs.get("pin_memory"))
    memory = MemoryKind.PINNED if pinned else MemoryKind.DEFAULT
    name = walk.state.define(node.name, value)
    walk.emit(Allocate(name, memory, origin=walk.state.origin(node)))
    return Ref(name)


def _as_strided(walk: GraphWalk, node: Node) -> Any:
    """Convert a view whose offset counts from the start of the storage.

    As an op it would do so whatever the planner makes of that storage; a line counts from where the
    storage's owner begins.
    """
    state = walk.state
    source, *rest = (walk.value(arg) for arg in node.args)
    offset = rest[2] if len(rest) > 2 else walk.value(node.kwargs.get("storage_offset"))
    value = node.meta.get("val")
    is_known = isinstance(source, Ref) and state.draft.is_certain(source.name)
    if not is_known or not isinstance(value, torch.Tensor):
        return call_op(walk, node)
    have, found = state.draft.buffers[source.name], state.layout_of(value)
    if offset is None:
        begin = have.offset
    else:
        begin = dim(offset - elements(state.starts.get(source.name, 0), found.dtype.itemsize))
    layout = Layout(found.dtype, found.device, found.size, found.stride, begin)
    name = state.define_view(node.name, value, Relation.ALIAS, (source.name,))
    state.draft.buffers[name] = layout
    owner = source.name if offset is None else min(state.draft.roots(source.name))
    walk.emit(Reinterpret(name, owner, origin=state.origin(node)))
    return Ref(name)


def _scalar_tensor(walk: GraphWalk, node: Node) -> Any:
    """Convert a number as a tensor, whose shape is known even of a number that torch knows not."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return call_op(walk, node)
    named: dict[str, Any] = dict(node.kwargs)
    options = {name: named[name] for name in ("dtype", "device") if name in named}
    like = torch.empty((), **options)
    args = [walk.value(arg) for arg in node.args]
    kwargs = {name: walk.value(arg) for name, arg in node.kwargs.items()}
    return emit_call(walk, node, node.target, args, kwargs, Expected(node.name, like))


def _batch_norm(walk: GraphWalk, node: Node) -> Any:
    """Convert a batch norm; in training it writes its statistics, which its schema does not say."""
    args = [walk.value(arg) for arg in node.args]
    if not (args[5] is True and isinstance(args[3], Ref)):
        return call_op(walk, node)
    op = torch.ops.aten._native_batch_norm_legit.default  # noqa: SLF001 - an op's public name
    wanted = Expected(node.name, (node.meta["val"], None, None), {(0,): node.name}, {(0,)})
    return emit_call(walk, node, op, args[:8], {}, wanted)[0]


Special = Callable[["GraphWalk", "Node"], Any]

#: Ops with a form of their own, by name with or without the overload.
OPS: Final[Mapping[str, Special]] = {
    "aten::sym_size": _metadata,
    "aten::sym_stride": _metadata,
    "aten::sym_numel": _metadata,
    "aten::sym_storage_offset": _metadata,
    "aten::sym_is_contiguous": _metadata,
    "aten::size": _metadata,
    "aten::stride": _metadata,
    "aten::numel": _metadata,
    "aten::storage_offset": _metadata,
    "aten::dim": _metadata,
    "aten::_assert_scalar": _assert_scalar,
    "aten::sym_constrain_range": _constrain_range,
    "aten::sym_constrain_range_for_size": _constrain_range,
    "aten::item": bind_item,
    "aten::_local_scalar_dense": bind_item,
    "aten::detach_": _same,
    "aten::lift_fresh": _same,
    "aten::empty_strided": _empty,
    "aten::empty.memory_format": _empty,
    "aten::as_strided": _as_strided,
    "aten::scalar_tensor": _scalar_tensor,
    "aten::batch_norm": _batch_norm,
}
