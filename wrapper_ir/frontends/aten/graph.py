"""Nodes of a graph: each to lines and a value."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from wrapper_ir.frontends.aten import numbers, special
from wrapper_ir.frontends.aten.calls import call_op
from wrapper_ir.frontends.aten.control import HIGHER_ORDER
from wrapper_ir.frontends.aten.emitted import LAUNCH, NAMESPACE, convert_launch, convert_own
from wrapper_ir.frontends.aten.schemas import is_op
from wrapper_ir.frontends.aten.state import Ref, UnsupportedNodeError, is_guard
from wrapper_ir.frontends.common.ops import SYMBOLIC
from wrapper_ir.lines.program import Constant, ConstantKind

if TYPE_CHECKING:
    from wrapper_ir.frontends.aten.state import GraphWalk, State


def convert_node(walk: GraphWalk, node: Node) -> Any:
    """Convert a node to lines, and return its value.

    Raises:
        UnsupportedNodeError: It has no form.
    """
    if node.op == "get_attr":
        return _attribute(walk, node)
    if is_guard(node):
        return None
    if node.op != "call_function":
        raise UnsupportedNodeError("it is no call of an ATen op")
    target: Any = node.target
    if target is operator.getitem:
        return _item(walk, node)
    if numbers.find(target) is not None:
        return _number(walk, node)
    if isinstance(target, torch._ops.HigherOrderOperator):  # noqa: SLF001 - its only name
        return _higher_order(walk, node)
    if is_op(target):
        name = target.name()
        if name.startswith(NAMESPACE):
            return convert_own(walk, node)
        special_case = special.OPS.get(name) or special.OPS.get(name.partition(".")[0])
        return call_op(walk, node) if special_case is None else special_case(walk, node)
    raise UnsupportedNodeError("it is no operator of torch's registry")


def _item(walk: GraphWalk, node: Node) -> Any:
    whole, index = (walk.value(arg) for arg in node.args)
    if not isinstance(whole, (list, tuple)) or not isinstance(index, int):
        raise UnsupportedNodeError("it takes a part of something that is no list")
    return whole[index]


def _number(walk: GraphWalk, node: Node) -> Any:
    args = tuple(walk.value(arg) for arg in node.args)
    if not any(isinstance(arg, Ref) for arg in args):
        found = numbers.apply(node.target, args)
        if found is not None:
            return found
    known = node.meta.get("val")
    if isinstance(known, (bool, int, float, *SYMBOLIC)):
        return walk.state.scalar(known)
    raise UnsupportedNodeError("the IR's numbers have no such operation")


def _higher_order(walk: GraphWalk, node: Node) -> Any:
    name = getattr(node.target, "__name__", str(node.target))
    convert = convert_launch if name == LAUNCH else HIGHER_ORDER.get(name)
    if convert is None:
        raise UnsupportedNodeError(f"the higher-order op '{name}' has no form")
    return convert(walk, node)


def _attribute(walk: GraphWalk, node: Node) -> Any:
    found: Any = walk.module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    if isinstance(found, torch.Tensor):
        return Ref(constant(walk.state, str(node.target), found))
    if isinstance(found, (GraphModule, bool, int, float, str, type(None))):
        return found
    raise UnsupportedNodeError(f"an attribute of type {type(found).__name__} is no tensor")


def constant(
    state: State, qualified: str, tensor: torch.Tensor, kind: ConstantKind | None = None
) -> str:
    """Return the name of a tensor of the model's, made on first use."""
    draft = state.draft
    for name in draft.names_of(tensor):
        if draft.constants[name].qualified_name == qualified:
            return name
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    if not plain or tensor.is_quantized:
        raise UnsupportedNodeError(f"a constant of type {type(tensor).__name__}")
    if kind is None:
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        kind = ConstantKind.PARAMETER if is_parameter else ConstantKind.TENSOR
    name = state.define(qualified, tensor)
    draft.constants[name] = Constant(qualified, kind)
    draft.hold(name, tensor)
    return name
