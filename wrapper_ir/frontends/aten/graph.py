"""Walking a graph: each node to lines and a value."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.aten import numbers, special
from wrapper_ir.frontends.aten.calls import call_op
from wrapper_ir.frontends.aten.control import HIGHER_ORDER
from wrapper_ir.frontends.aten.emitted import LAUNCH, NAMESPACE, convert_launch, convert_own
from wrapper_ir.frontends.aten.schemas import is_op
from wrapper_ir.frontends.aten.state import (
    POISON,
    SYMBOLIC,
    Ref,
    UnsupportedNodeError,
    is_guard,
)
from wrapper_ir.lines.program import Constant, ConstantKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.frontends.aten.state import State
    from wrapper_ir.lines.program import AnyLine

__all__ = ["GraphWalk"]


class GraphWalk:
    """Converts one graph into a body of lines.

    Args:
        state: What belongs to the whole program.
        module: Holds the graph, and what its ``get_attr`` nodes name.
        body: Where the lines go; that of another walk where a graph is inlined.
        prefix: The module's path in the outermost one.
    """

    def __init__(
        self, state: State, module: GraphModule, body: list[AnyLine], prefix: str = ""
    ) -> None:
        self.state = state
        self.module = module
        self.body = body
        self.prefix = prefix
        self.values: dict[Node, Any] = {}

    def run(self, given: Sequence[Any]) -> Any:
        """Convert every node, placeholders having the values given; return what the graph does.

        What cannot be converted is reported to the state, and so is only what comes first: nodes
        that use such a node are passed over.
        """
        left = iter(given)
        result: Any = None
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(left)
            elif node.op == "output":
                result = self.value(node.args[0])
            else:
                self.values[node] = self._converted(node)
        return result

    def value(self, arg: Any) -> Any:
        """Return an argument of a node with the values of nodes in their places."""
        return torch.fx.node.map_arg(arg, lambda node: self.values[node])

    def emit(self, line: AnyLine) -> None:
        """Append a line."""
        self.body.append(line)

    def inline(self, node: Node, module: Any, given: Sequence[Any]) -> Any:
        """Convert a graph that a node calls, as if its nodes stood here."""
        if not isinstance(module, GraphModule):
            raise UnsupportedNodeError("what it calls is no graph")
        return GraphWalk(self.state, module, self.body, self.prefix).run(given)

    def _converted(self, node: Node) -> Any:
        if any(self.values.get(source) is POISON for source in node.all_input_nodes):
            return POISON
        try:
            return self._convert(node)
        except UnsupportedNodeError as error:
            self.state.report(node, str(error))
        except WrapperIRError as error:
            self.state.report(node, error.message)
        return POISON

    def _convert(self, node: Node) -> Any:
        if node.op == "get_attr":
            return self._attribute(node)
        if is_guard(node):
            return None
        if node.op != "call_function":
            raise UnsupportedNodeError("it is no call of an ATen op")
        target: Any = node.target
        if target is operator.getitem:
            return self._item(node)
        if numbers.find(target) is not None:
            return self._number(node)
        if isinstance(target, torch._ops.HigherOrderOperator):  # noqa: SLF001 - its only name
            return self._higher_order(node)
        if is_op(target):
            name = target.name()
            if name.startswith(NAMESPACE):
                return convert_own(self, node)
            special_case = special.OPS.get(name) or special.OPS.get(name.partition(".")[0])
            return call_op(self, node) if special_case is None else special_case(self, node)
        raise UnsupportedNodeError("it is no operator of torch's registry")

    def _item(self, node: Node) -> Any:
        whole, index = (self.value(arg) for arg in node.args)
        if not isinstance(whole, (list, tuple)) or not isinstance(index, int):
            raise UnsupportedNodeError("it takes a part of something that is no list")
        return whole[index]

    def _number(self, node: Node) -> Any:
        args = tuple(self.value(arg) for arg in node.args)
        if not any(isinstance(arg, Ref) for arg in args):
            found = numbers.apply(node.target, args)
            if found is not None:
                return found
        known = node.meta.get("val")
        if isinstance(known, (bool, int, float, *SYMBOLIC)):
            return self.state.scalar(known)
        raise UnsupportedNodeError("the IR's numbers have no such operation")

    def _higher_order(self, node: Node) -> Any:
        name = getattr(node.target, "__name__", str(node.target))
        convert = convert_launch if name == LAUNCH else HIGHER_ORDER.get(name)
        if convert is None:
            raise UnsupportedNodeError(f"the higher-order op '{name}' has no form")
        return convert(self, node)

    def _attribute(self, node: Node) -> Any:
        found: Any = self.module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if isinstance(found, torch.Tensor):
            return Ref(self.constant(str(node.target), found))
        if isinstance(found, (GraphModule, bool, int, float, str, type(None))):
            return found
        raise UnsupportedNodeError(f"an attribute of type {type(found).__name__} is no tensor")

    def constant(
        self, qualified: str, tensor: torch.Tensor, kind: ConstantKind | None = None
    ) -> str:
        """Return the name of a tensor of the model's, made on first use."""
        state = self.state
        for name, known in state.data.items():
            if known is tensor and state.constants[name].qualified_name == qualified:
                return name
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        if not plain or tensor.is_quantized:
            raise UnsupportedNodeError(f"a constant of type {type(tensor).__name__}")
        if kind is None:
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            kind = ConstantKind.PARAMETER if is_parameter else ConstantKind.TENSOR
        name = state.define(qualified, tensor)
        state.constants[name] = Constant(qualified, kind)
        state.data[name] = tensor
        return name
