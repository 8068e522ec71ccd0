"""Sources of a conversion: an exported program or a graph module, in one form."""

from __future__ import annotations

import contextlib
import copy
import enum
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.export import graph_signature as signatures
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from wrapper_ir.frontends.aten import numbers
from wrapper_ir.frontends.aten.state import ExportError, NotAnAtenGraphError, is_guard, target_of
from wrapper_ir.frontends.common.exported import Range, exported_ranges
from wrapper_ir.frontends.common.ops import is_op
from wrapper_ir.lines.program import ConstantKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.export import ExportedProgram


class PlaceKind(enum.Enum):
    """The role of a graph's placeholder."""

    INPUT = "input"
    CONSTANT = "constant"
    FIXED = "fixed"
    """An argument whose value the graph is specialized for."""


@dataclass(frozen=True, slots=True)
class Place:
    """A placeholder: an input, a tensor of the model, or a value that never changes."""

    node: Node
    kind: PlaceKind
    name: str
    value: Any = None
    constant: ConstantKind = ConstantKind.TENSOR


@dataclass(slots=True)
class Source:
    """A graph with a description of its inputs and outputs."""

    module: GraphModule  #: that holds the graph
    places: list[Place]  #: the placeholders, in order
    #: The outputs to copy back, by position, each with the placeholder to copy it to.
    copies: dict[int, str] = field(default_factory=dict)
    #: The positions of the outputs that the caller gets.
    results: list[int] = field(default_factory=list)
    ranges: dict[str, Range] = field(default_factory=dict)
    in_spec: str = ""  #: the tree structure of the caller's arguments as JSON, or empty
    out_spec: str = ""


_CONSTANTS: Final[Mapping[signatures.InputKind, ConstantKind]] = {
    signatures.InputKind.PARAMETER: ConstantKind.PARAMETER,
    signatures.InputKind.BUFFER: ConstantKind.BUFFER,
    signatures.InputKind.CONSTANT_TENSOR: ConstantKind.TENSOR,
}

_COPIES: Final = [
    getattr(signatures.OutputKind, name, None)
    for name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION")
]


def needs_decomposition(module: GraphModule) -> bool:
    """Return True if an op of a graph has an effect that neither its schema nor a line states."""
    graphs = [m for m in module.modules() if isinstance(m, GraphModule)]
    return any(_is_hidden(node) for graph in graphs for node in graph.graph.nodes)


def _is_hidden(node: Node) -> bool:
    if node.op != "call_function":
        return False
    target: Any = node.target
    if not is_op(target):
        return getattr(target, "__name__", "") == "wrap_with_autocast"
    name = target.name().partition(".")[0]
    if name == "aten::instance_norm":
        return node.args[3] is not None and node.args[5] is True
    return torch.Tag.inplace_view in target.tags and name != "aten::detach_"


def source_of_export(exported: ExportedProgram) -> Source:
    """Return an exported program as a source, decomposed if lines cannot express its ops."""
    if needs_decomposition(exported.graph_module):
        exported = exported.run_decompositions({})
    signature = exported.graph_signature
    tensors = {**exported.state_dict, **exported.constants}
    nodes = [n for n in exported.graph.nodes if n.op == "placeholder"]
    pairs = zip(nodes, signature.input_specs, strict=True)
    places = [_place(node, spec, tensors) for node, spec in pairs]
    by_target = {place.name: place.node.name for place in places}
    source = Source(exported.graph_module, places)
    for position, output in enumerate(signature.output_specs):
        if output.kind in _COPIES:
            source.copies[position] = by_target[str(output.target)]
        elif output.kind is not signatures.OutputKind.TOKEN:
            source.results.append(position)
    source.ranges = exported_ranges(exported.graph, exported.range_constraints)
    source.in_spec = _spec(exported.call_spec.in_spec)
    source.out_spec = _spec(exported.call_spec.out_spec)
    return source


def _place(node: Node, spec: Any, tensors: Mapping[str, Any]) -> Place:
    if spec.kind in _CONSTANTS:
        value, constant = tensors[spec.target], _CONSTANTS[spec.kind]
        return Place(node, PlaceKind.CONSTANT, spec.target, value, constant)
    if isinstance(spec.arg, (signatures.CustomObjArgument, signatures.TokenArgument)):
        kind = "an object of a custom class" if spec.target else "a token"
        raise NotAnAtenGraphError(what=f"its argument {node.name!r} is {kind}", hint="")
    if isinstance(spec.arg, signatures.ConstantArgument):
        return Place(node, PlaceKind.FIXED, node.name, spec.arg.value)
    return Place(node, PlaceKind.INPUT, node.name, isinstance(spec.arg, signatures.TensorArgument))


def source_of_module(module: GraphModule) -> Source:
    """Return a graph module of ATen ops, and nothing else, as a source."""
    problem = _problem(module)
    if problem:
        raise NotAnAtenGraphError(what=problem)
    declared = dict(getattr(module, "range_constraints", ()))  # those of an export, if it is one
    module = completed(module)
    ranges = exported_ranges(module.graph, declared)
    places = []
    for node in module.graph.find_nodes(op="placeholder"):
        known = node.meta.get("val")
        is_fixed = known is None or isinstance(known, (bool, int, float, str))
        kind = PlaceKind.FIXED if is_fixed else PlaceKind.INPUT
        places.append(Place(node, kind, node.name, known))
    returned = module.graph.output_node().args[0]
    leaves = pytree.tree_leaves(returned)
    if not isinstance(returned, (tuple, list)) or list(returned) != leaves:
        graph = copy.deepcopy(module.graph)
        end = graph.output_node()
        end.args = (tuple(pytree.tree_leaves(end.args[0])),)
        module = GraphModule(module, graph)
    return Source(module, places, results=list(range(len(leaves))), ranges=ranges)


def _problem(module: GraphModule) -> str:
    """Return the reason why a module is not a graph of ATen ops; empty if it is one."""
    for node in module.graph.nodes:
        if node.op in ("call_module", "call_method") and not is_guard(node):
            return f"%{node.name} is a {target_of(node)}"
        if node.op == "call_function" and not _is_plain(node.target):
            return f"%{node.name} calls {target_of(node)}"
    for node in module.graph.nodes:
        if node.op == "placeholder" and "val" not in node.meta:
            return f"the shape of %{node.name} is not known (its meta has no 'val')"
    return ""


def _is_plain(target: Any) -> bool:
    """Return True if a graph of ATen ops may call the target: an op, or arithmetic on numbers."""
    is_higher_order = isinstance(target, torch._ops.HigherOrderOperator)  # noqa: SLF001
    if is_op(target) or is_higher_order:
        return True
    return target is operator.getitem or numbers.find(target) is not None


def export_module(
    module: torch.nn.Module,
    args: Sequence[Any],
    dynamic_shapes: Any,
    kwargs: Mapping[str, Any] | None = None,
) -> ExportedProgram:
    """Export a module, or raise ``ExportError`` with what torch says."""
    try:
        given = tuple(args), dict(kwargs or {})
        return torch.export.export(module, *given, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise ExportError(problem=str(error)) from error


def _spec(tree: pytree.TreeSpec | None) -> str:
    """Return a tree's structure as JSON; empty if JSON cannot name one of its types."""
    try:
        return "" if tree is None else pytree.treespec_dumps(tree)
    except NotImplementedError:
        return ""


# Inference of missing shapes.
#
# Tools that change graphs often leave out the fake value (``meta["val"]``) of the nodes that they
# insert. Calling a node's op with the fake values of its arguments gives the missing one.


def completed(module: GraphModule) -> GraphModule:
    """Return the module with missing fake values filled in where possible, or the module itself.

    The conversion reports a value that is still missing, if it needs it.
    """
    if not any(map(_is_missing, module.graph.nodes)):
        return module
    copied = GraphModule(module, copy.deepcopy(module.graph))
    copied.__dict__.update({k: v for k, v in vars(module).items() if k not in vars(copied)})
    inputs = (n.meta.get("val") for n in copied.graph.nodes if n.op == "placeholder")
    mode = next((v.fake_mode for v in inputs if hasattr(v, "fake_mode")), None)
    for node in copied.graph.nodes:
        if _is_missing(node):
            _complete(copied, node, mode)
    return copied


def _is_missing(node: Node) -> bool:
    is_wanted = node.op == "call_function" and bool(node.users) and "val" not in node.meta
    return is_wanted and (is_op(node.target) or numbers.find(node.target) is not None)


def _complete(module: GraphModule, node: Node, mode: Any) -> None:
    target: Any = node.target
    if is_op(target) and target._schema.is_mutable:  # noqa: SLF001 - the only source of the effects
        return
    # A failing call may raise any exception.
    with contextlib.suppress(Exception):
        args, kwargs = torch.fx.node.map_arg(
            (node.args, node.kwargs), lambda n: _in_mode(_fake_value(module, n), mode)
        )
        node.meta["val"] = target(*args, **kwargs)


def _fake_value(module: GraphModule, node: Node) -> Any:
    if node.op != "get_attr" or "val" in node.meta:
        return node.meta["val"]
    return operator.attrgetter(str(node.target))(module)


def _in_mode(value: Any, mode: Any) -> Any:
    """Convert tensors to fake tensors of one mode. Torch does not mix modes."""
    if isinstance(value, (list, tuple)):
        return [_in_mode(item, mode) for item in value]
    if mode is None or not isinstance(value, torch.Tensor):
        return value
    own = getattr(value, "fake_mode", None)
    if own is mode:
        return value
    if own is None:
        return mode.from_tensor(value)
    how: Any = {"dtype": value.dtype, "device": value.device}
    with mode:
        return torch.empty_strided(value.shape, value.stride(), **how)
