"""Conversion of the nodes of a graph, each to lines and a value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch
from torch.fx import GraphModule, Node

from wrapper_ir import lines
from wrapper_ir.build.draft import range_checks
from wrapper_ir.frontends.aten import numbers
from wrapper_ir.frontends.aten.calls import Expected, call_op, emit_call
from wrapper_ir.frontends.aten.control import HIGHER_ORDER
from wrapper_ir.frontends.aten.numbers import bind_item, bind_metadata
from wrapper_ir.frontends.aten.state import Ref, UnsupportedNodeError, elements, is_guard
from wrapper_ir.frontends.common.ops import SYMBOLIC, is_op
from wrapper_ir.lines.expr import is_relation

if TYPE_CHECKING:
    from wrapper_ir.frontends.aten.state import GraphWalk, State


def convert_node(walk: GraphWalk, node: Node) -> Any:
    """Convert a node to lines and return its value."""
    if node.op == "get_attr":
        return _attribute(walk, node)
    if is_guard(node):
        return None
    if node.op != "call_function":
        raise UnsupportedNodeError("it is not a call of an ATen op")
    target: Any = node.target
    if target is operator.getitem:
        return _item(walk, node)
    if numbers.find(target) is not None:
        return _number(walk, node)
    if isinstance(target, torch._ops.HigherOrderOperator):  # noqa: SLF001 - its only name
        return _higher_order(walk, node)
    if is_op(target):
        name = target.name()
        special_case = OPS.get(name) or OPS.get(name.partition(".")[0])
        return call_op(walk, node) if special_case is None else special_case(walk, node)
    raise UnsupportedNodeError("it is not an op of torch's registry")


def _item(walk: GraphWalk, node: Node) -> Any:
    whole, index = walk.value(node.args)
    if not isinstance(whole, (list, tuple)) or not isinstance(index, int):
        raise UnsupportedNodeError("it indexes something that is not a list")
    return whole[index]


def _number(walk: GraphWalk, node: Node) -> Any:
    args = walk.value(node.args)
    if not any(isinstance(arg, Ref) for arg in args):
        found = numbers.apply(node.target, args)
        if found is not None:
            return found
    known = node.meta.get("val")
    if isinstance(known, (bool, int, float, *SYMBOLIC)):
        return walk.state.scalar(known)
    raise UnsupportedNodeError("the IR has no such operation on numbers")


def _higher_order(walk: GraphWalk, node: Node) -> Any:
    name = getattr(node.target, "__name__", str(node.target))
    convert = HIGHER_ORDER.get(name)
    if convert is None:
        raise UnsupportedNodeError(f"the higher-order op '{name}' is not supported")
    return convert(walk, node)


def _attribute(walk: GraphWalk, node: Node) -> Any:
    found: Any = operator.attrgetter(str(node.target))(walk.module)
    if isinstance(found, torch.Tensor):
        return Ref(constant(walk.state, str(node.target), found))
    if isinstance(found, (GraphModule, bool, int, float, str, type(None))):
        return found
    raise UnsupportedNodeError(f"an attribute of type {type(found).__name__} is not a tensor")


def constant(
    state: State, qualified: str, tensor: torch.Tensor, kind: lines.ConstantKind | None = None
) -> str:
    """Return the constant for a tensor of the model, defined on first use."""
    draft = state.draft
    for name in draft.names_of(tensor):
        if draft.constants[name].qualified_name == qualified:
            return name
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    if not plain or tensor.is_quantized:
        kind_name = type(tensor).__name__
        raise UnsupportedNodeError(f"a constant of type {kind_name} is not supported")
    if kind is None:
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        kind = lines.ConstantKind.PARAMETER if is_parameter else lines.ConstantKind.TENSOR
    name = state.define(qualified, tensor)
    draft.constants[name] = lines.Constant(qualified, kind)
    draft.hold(name, tensor)
    return name


# Ops with special conversions: sizes, checks, numbers read from tensors, memory, views.


def _metadata(walk: GraphWalk, node: Node) -> Any:
    """Return a tensor's metadata, which its layout already states."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        bind_metadata(walk, node)
    if isinstance(value, (bool, int, *SYMBOLIC)):
        return walk.state.scalar(value)
    if isinstance(value, (list, tuple)):
        return [walk.state.scalar(item) for item in value]
    raise UnsupportedNodeError("its value is not known")


def _assert_scalar(walk: GraphWalk, node: Node) -> None:
    condition, *rest = walk.value(node.args)
    message = rest[0] if rest else node.kwargs.get("assert_msg", "")
    holds = condition if is_relation(condition) else sympy.Ne(condition, 0)
    walk.emit(lines.AssertSymbol(holds, str(message), origin=walk.state.origin(node)))


def _constrain_range(walk: GraphWalk, node: Node) -> None:
    named = zip(("size", "min", "max"), node.args, strict=False)
    given = walk.value({**dict(named), **node.kwargs})
    value, lower, upper = given["size"], given.get("min"), given.get("max")
    if lower is None and "for_size" in str(node.target):
        lower = 0
    if lower is not None or upper is not None:
        for check in range_checks(value, lower, upper, value, walk.state.origin(node)):
            walk.emit(check)


def _empty(walk: GraphWalk, node: Node) -> Any:
    """Convert an op that allocates an uninitialized tensor."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return call_op(walk, node)
    pinned = bool(node.kwargs.get("pin_memory"))
    memory = lines.MemoryKind.PINNED if pinned else lines.MemoryKind.DEFAULT
    name = walk.state.define(node.name, value)
    walk.emit(lines.Allocate(name, memory, origin=walk.state.origin(node)))
    return Ref(name)


def _as_strided(walk: GraphWalk, node: Node) -> Any:
    """Convert a view whose offset counts from the start of the storage.

    The op would count from the start of the memory even if the planner puts the storage into a
    pool. The line counts from the start of the storage's owner.
    """
    state = walk.state
    source, *rest = walk.value(node.args)
    offset = rest[2] if len(rest) > 2 else walk.value(node.kwargs.get("storage_offset"))
    value = node.meta.get("val")
    is_known = isinstance(source, Ref) and state.draft.is_certain(source.name)
    if not is_known or not isinstance(value, torch.Tensor):
        return call_op(walk, node)
    have, found = state.draft.buffers[source.name], state.layout_of(value)
    if offset is None:
        begin = have.offset
    else:
        begin = lines.dim(offset - elements(state.starts.get(source.name, 0), found.dtype.itemsize))
    layout = lines.Layout(found.dtype, found.device, found.size, found.stride, begin)
    name = state.define_view(node.name, value, lines.Relation.ALIAS, (source.name,))
    state.draft.buffers[name] = layout
    owner = source.name if offset is None else min(state.draft.roots(source.name))
    walk.emit(lines.Reinterpret(name, owner, origin=state.origin(node)))
    return Ref(name)


def _scalar_tensor(walk: GraphWalk, node: Node) -> Any:
    """Convert a number to a tensor. Its shape is known even without torch's fake value."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return call_op(walk, node)
    args, kwargs = walk.value(node.args), walk.value(node.kwargs)
    like = torch.empty((), dtype=kwargs.get("dtype"), device=kwargs.get("device"))
    return emit_call(walk, node, node.target, args, kwargs, Expected(node.name, like))


def _batch_norm(walk: GraphWalk, node: Node) -> Any:
    """Convert a batch norm, which in training updates statistics despite its schema."""
    args = walk.value(node.args)
    if not (args[5] is True and isinstance(args[3], Ref)):
        return call_op(walk, node)
    op = torch.ops.aten._native_batch_norm_legit.default  # noqa: SLF001 - an op's public name
    wanted = Expected(node.name, (node.meta["val"], None, None), {(0,): node.name}, {(0,)})
    return emit_call(walk, node, op, args[:8], {}, wanted)[0]


Special = Callable[["GraphWalk", "Node"], Any]

_METADATA: Final = ("size", "stride", "numel", "storage_offset")

#: Ops with special conversions, by name with or without the overload.
OPS: Final[Mapping[str, Special]] = {
    **dict.fromkeys((f"aten::sym_{name}" for name in (*_METADATA, "is_contiguous")), _metadata),
    **dict.fromkeys((f"aten::{name}" for name in (*_METADATA, "dim")), _metadata),
    "aten::_assert_scalar": _assert_scalar,
    **dict.fromkeys(
        ("aten::sym_constrain_range", "aten::sym_constrain_range_for_size"), _constrain_range
    ),
    **dict.fromkeys(("aten::item", "aten::_local_scalar_dense"), bind_item),
    # What they return is their argument, unless gradients are computed.
    **dict.fromkeys(
        ("aten::detach_", "aten::lift_fresh"), lambda walk, node: walk.value(node.args[0])
    ),
    **dict.fromkeys(("aten::empty_strided", "aten::empty.memory_format"), _empty),
    "aten::as_strided": _as_strided,
    "aten::scalar_tensor": _scalar_tensor,
    "aten::batch_norm": _batch_norm,
}
